// Where a message is written: grows with it, keeps a draft of every conversation, sends and stops.

import { el, icon } from "./dom.js";
import { keep, kept } from "./kept.js";
import { text } from "./strings.js";

/** @typedef {{send(words: string): Promise<boolean>, stop(): void, typing(): void, editLast(): void}} ComposerActions */

export class Composer {
  #draft = "new";
  #running = false;
  #barred = false;
  #sending = false;
  #most = Infinity;

  /** @param {HTMLElement} root @param {ComposerActions} actions */
  constructor(root, actions) {
    this.actions = actions;
    this.field = /** @type {HTMLTextAreaElement} */ (
      el("textarea", { id: "message", rows: "1", dir: "auto", "aria-label": text.composerLabel, placeholder: text.composerHint, "aria-describedby": "composer-note" })
    );
    this.label = el("span", { class: "unseen" }, text.send);
    this.button = /** @type {HTMLButtonElement} */ (el("button", { type: "submit", class: "go", title: text.send }, icon("send"), icon("stop"), this.label));
    this.note = el("p", { id: "composer-note", class: "faint" }, text.keysHint);
    const form = el("form", { class: "field", onsubmit: (/** @type {Event} */ event) => this.#submit(event) }, this.field, this.button);
    root.append(form, this.note);
    this.field.addEventListener("input", () => this.#typed());
    this.field.addEventListener("keydown", (event) => this.#key(event));
    this.#fit();
  }

  /** Whose draft this is. @param {string | null} conversation */
  belongsTo(conversation) {
    this.#draft = conversation ?? "new";
    this.words = kept(`draft.${this.#draft}`) ?? "";
  }

  get words() {
    return this.field.value;
  }

  set words(words) {
    this.field.value = words;
    this.#fit();
    this.#check();
  }

  /** @param {boolean} running @param {boolean} barred there is nothing to press now */
  set(running, barred) {
    this.#running = running;
    this.#barred = barred;
    this.button.classList.toggle("stops", running);
    this.button.title = running ? (barred ? text.stopping : text.stop) : text.send;
    this.label.textContent = this.button.title;
    this.#check();
  }

  /** @param {number} most characters */
  limit(most) {
    this.#most = most;
    this.#check();
  }

  /** @param {Event} event */
  #submit(event) {
    event.preventDefault();
    if (this.#running) this.actions.stop();
    else void this.send();
  }

  /** The draft is given up only when the server has the message. */
  async send() {
    const words = this.words.trim();
    if (!words || this.#running || this.#barred || this.#sending || words.length > this.#most) return;
    const draft = this.#draft;
    this.#sending = true;
    this.words = "";
    const taken = await this.actions.send(words).finally(() => (this.#sending = false));
    if (taken) keep(`draft.${draft}`, this.#draft === draft ? this.words : null);
    else if (this.words === "") this.words = words;
    this.#check();
  }

  #typed() {
    keep(`draft.${this.#draft}`, this.words);
    this.#fit();
    this.#check();
    if (this.words) this.actions.typing();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const touch = matchMedia("(pointer: coarse) and (hover: none)").matches; // there, Enter is a new line
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && !touch) {
      event.preventDefault();
      void this.send();
    } else if (event.key === "ArrowUp" && this.words === "" && !event.altKey) {
      event.preventDefault();
      this.actions.editLast();
    }
  }

  #fit() {
    if (CSS.supports("field-sizing", "content")) return; // the style sheet does it
    this.field.style.blockSize = "auto";
    this.field.style.blockSize = `${Math.min(this.field.scrollHeight, innerHeight * 0.4)}px`;
  }

  #check() {
    const long = this.words.length > this.#most;
    this.button.disabled = this.#barred || (!this.#running && (!this.words.trim() || long));
    this.note.textContent = long ? text.tooLong(this.words.length, this.#most) : text.keysHint;
    this.note.classList.toggle("bad", long);
  }
}
