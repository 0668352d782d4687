// Dialogs: a frame for each, and two small ones, a title to change and the list of shortcuts.

import { el, iconButton } from "./dom.js";
import { text } from "./strings.js";

/** A modal dialog that is gone once closed. @param {string} title @param {(Node | null)[]} content @param {() => void} [closed] @returns {HTMLDialogElement} */
export function openDialog(title, content, closed = () => {}) {
  const dialog = /** @type {HTMLDialogElement} */ (el("dialog", { "aria-labelledby": "dialog-title" }));
  const close = iconButton("close", text.close, () => dialog.close());
  dialog.append(el("header", {}, el("h2", { id: "dialog-title" }, title), close), ...content.filter((node) => node !== null));
  dialog.addEventListener("close", () => {
    dialog.remove();
    closed();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close()); // the backdrop
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** @param {string} title @param {(title: string) => void} rename */
export function renameDialog(title, rename) {
  const field = /** @type {HTMLInputElement} */ (el("input", { type: "text", maxlength: "200", dir: "auto", autofocus: true, value: title }));
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    const words = field.value.trim();
    dialog.close();
    if (words && words !== title) rename(words);
  };
  const form = el("form", { onsubmit: send },
    el("label", { class: "labelled" }, el("span", {}, text.renameLabel), field),
    el("p", { class: "row end" },
      el("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, text.cancel),
      el("button", { type: "submit", class: "button" }, text.rename)));
  const dialog = openDialog(text.rename, [form]);
  field.select();
}

const MOD = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘" : "Ctrl";

/** Each with the keys that do it. */
const SHORTCUTS = /** @type {const} */ ([
  ["write", `${MOD} + I`], ["last", "↑"], ["turns", "Alt + ↑ ↓"], ["stop", "Esc"], ["new", `${MOD} + Shift + O`], ["search", `${MOD} + K`],
  ["memory", `${MOD} + J`], ["settings", `${MOD} + ,`], ["help", `${MOD} + /`],
]);

export function shortcutsDialog() {
  if (document.querySelector("dialog")) return;
  const rows = SHORTCUTS.map(([name, keys]) =>
    el("div", {}, el("dt", {}, ...keys.split(" ").map((key) => (key === "+" ? " + " : el("kbd", {}, key)))), el("dd", {}, text.keys[name])));
  openDialog(text.shortcutsTitle, [el("dl", { class: "keys" }, ...rows)]);
}

/** @typedef {{write(): void, step(by: 1 | -1): void, stop(): boolean, fresh(): void, search(): void, memory(): void, settings(): void}} ShortcutActions */

/** @param {ShortcutActions} actions */
export function listenForShortcuts(actions) {
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const mod = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    let act = null;
    if (mod && !event.altKey) {
      const plain = { k: actions.search, i: actions.write, j: actions.memory, ",": actions.settings, "/": shortcutsDialog }[key];
      act = event.shiftKey ? (key === "o" ? actions.fresh : null) : plain;
    } else if (event.altKey && !mod && (key === "arrowup" || key === "arrowdown")) {
      act = () => actions.step(key === "arrowup" ? -1 : 1);
    } else if (key === "escape" && actions.stop()) act = () => {};
    if (!act) return;
    event.preventDefault();
    act();
  });
}
