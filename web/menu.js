// A menu under a button: arrow keys walk, Escape and a press elsewhere close.

import { el } from "./dom.js";

/** @typedef {{label: string, act: () => void, danger?: boolean}} Item */

/** @param {HTMLElement} button @param {Item[]} items */
export function openMenu(button, items) {
  const menu = el("div", { class: "menu", role: "menu", popover: "auto", "aria-label": button.getAttribute("aria-label") ?? "" });
  const entries = items.map(({ label, act, danger }) =>
    el("button", { type: "button", role: "menuitem", tabindex: "-1", class: danger ? "danger" : null, onclick: () => (menu.hidePopover(), act()) }, label));
  menu.append(...entries);
  (button.closest("nav, main") ?? document.body).append(menu);
  menu.addEventListener("toggle", (event) => {
    if (/** @type {ToggleEvent} */ (event).newState !== "closed") return;
    button.setAttribute("aria-expanded", "false");
    if (menu.contains(document.activeElement) || document.activeElement === document.body) button.focus();
    menu.remove();
  });
  menu.addEventListener("keydown", (event) => {
    const at = entries.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: entries.length - 1 }[event.key];
    if (event.key === "Tab" || event.key === "Escape") menu.hidePopover();
    if (event.key === "Escape") event.stopPropagation(); // an answer goes on
    if (to === undefined) return;
    event.preventDefault();
    entries[(to + entries.length) % entries.length].focus();
  });
  button.setAttribute("aria-expanded", "true");
  menu.showPopover();
  const { left, right, bottom, top } = button.getBoundingClientRect();
  const { width, height } = menu.getBoundingClientRect();
  const x = left + width <= innerWidth - 8 ? left : right - width;
  menu.style.left = `${Math.max(8, x)}px`;
  menu.style.top = `${bottom + height + 4 < innerHeight ? bottom + 4 : Math.max(8, top - height - 4)}px`;
  entries[0]?.focus();
}
