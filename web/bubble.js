// One bubble over the page for the words behind a line: on hover, on focus, on a press; Escape hides it.

import { byId, el } from "./dom.js";

const REST = 140; // ms in which the pointer may cross from the line to the bubble

/**
 * Watch `root` for elements with `attribute`; `tell` says what is shown for the attribute's value.
 * @param {Element} root @param {string} attribute @param {(value: string) => Node[]} tell
 */
export function bubbles(root, attribute, tell) {
  const bubble = el("div", { class: "bubble", id: `bubble-${attribute}`, role: "tooltip", popover: "manual" });
  byId("main").append(bubble);
  /** @type {HTMLElement | null} */
  let at = null;
  let timer = 0;

  /** @param {Event} event @returns {HTMLElement | null} */
  const target = (event) => (event.target instanceof Element ? event.target.closest(`[${attribute}]`) : null);
  const hide = () => {
    clearTimeout(timer);
    if (!at) return;
    at.setAttribute("aria-expanded", "false");
    at.removeAttribute("aria-describedby");
    at = null;
    bubble.hidePopover();
  };
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(hide, REST);
  };
  /** @param {HTMLElement} line */
  const show = (line) => {
    clearTimeout(timer);
    if (at === line) return;
    hide();
    bubble.replaceChildren(...tell(line.getAttribute(attribute) ?? ""));
    if (!bubble.firstChild) return;
    at = line;
    line.setAttribute("aria-expanded", "true");
    line.setAttribute("aria-describedby", bubble.id);
    bubble.showPopover();
    place(bubble, line);
  };

  root.addEventListener("pointerover", (event) => {
    const line = target(event);
    if (line && /** @type {PointerEvent} */ (event).pointerType === "mouse") show(line);
    else if (at && !line) later();
  });
  root.addEventListener("focusin", (event) => {
    const line = target(event);
    if (line?.matches(":focus-visible")) show(line);
  });
  root.addEventListener("focusout", later);
  root.addEventListener("click", (event) => {
    const line = target(event);
    if (line) show(line);
  });
  root.addEventListener("pointerleave", later);
  bubble.addEventListener("pointerenter", () => clearTimeout(timer));
  bubble.addEventListener("pointerleave", later);
  document.addEventListener("pointerdown", (event) => {
    if (at && !bubble.contains(/** @type {Node} */ (event.target)) && target(event) !== at) hide();
  });
  addEventListener("scroll", (event) => event.target !== bubble && hide(), { capture: true, passive: true });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !at) return;
    event.stopPropagation();
    hide();
  }, { capture: true });
}

/** Below the line where there is room, else above, over the answer; never past an edge. @param {HTMLElement} bubble @param {Element} line */
function place(bubble, line) {
  const edge = 8;
  const { left, top, bottom } = line.getBoundingClientRect();
  const { width, height } = bubble.getBoundingClientRect();
  const below = bottom + edge;
  const y = below + height + edge <= innerHeight ? below : top - height - edge;
  bubble.style.left = `${Math.max(edge, Math.min(left, innerWidth - width - edge))}px`;
  bubble.style.top = `${Math.max(edge, y)}px`;
}
