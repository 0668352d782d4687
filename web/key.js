// The API key: asked for when the server asks for it, kept for the tab or, by choice, on the device; sent in a header only.

import { openDialog } from "./dialogs.js";
import { el } from "./dom.js";
import { keep, kept } from "./kept.js";
import { text } from "./strings.js";

export class Keys {
  /** @type {Promise<void> | null} */
  #asking = null;
  #key = kept("key", "session") ?? kept("key") ?? "";

  key() {
    return this.#key;
  }

  /** Until there is one; whoever needs it meanwhile waits for the same answer. @param {boolean} refused the last one was wrong @returns {Promise<void>} */
  ask(refused) {
    this.#asking ??= this.#dialog(refused).finally(() => (this.#asking = null));
    return this.#asking;
  }

  forget() {
    this.#key = "";
    keep("key", null);
    keep("key", null, "session");
  }

  /** @param {boolean} refused @returns {Promise<void>} */
  #dialog(refused) {
    return new Promise((resolve) => {
      const field = /** @type {HTMLInputElement} */ (
        el("input", { type: "password", autocomplete: "current-password", required: true, autofocus: true, "aria-invalid": refused ? "true" : null, "aria-describedby": "key-note" })
      );
      const keepIt = /** @type {HTMLInputElement} */ (el("input", { type: "checkbox" }));
      const send = (/** @type {Event} */ event) => {
        event.preventDefault();
        const key = field.value.trim();
        if (!key) return;
        this.forget();
        this.#key = key;
        keep("key", key, keepIt.checked ? "local" : "session");
        dialog.close();
      };
      const form = el("form", { class: "stack", onsubmit: send },
        el("p", { id: "key-note", class: refused ? "bad" : "faint" }, refused ? text.keyWrong : text.keyMore),
        el("label", { class: "labelled" }, el("span", {}, text.keyLabel), field),
        el("label", { class: "check" }, keepIt, el("span", {}, text.keyKeep, el("small", {}, text.keyKeepMore))),
        el("p", { class: "row end" }, el("button", { type: "submit", class: "button" }, text.keyUse)));
      const dialog = openDialog(text.keyTitle, [form], resolve);
      dialog.classList.add("asks");
      dialog.addEventListener("cancel", (event) => event.preventDefault()); // there is nothing behind it
    });
  }
}
