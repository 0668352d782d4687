// Deleting that can be undone: the server is asked only when the time for that is over, or the page leaves.

import { text } from "./strings.js";
import { toast } from "./toast.js";
/** @import { Api } from "./api.js" */

const GRACE = 8_000;

export class Removals {
  /** @type {Map<string, HTMLElement>} */
  #waiting = new Map();

  /** @param {Api} api @param {{changed(): void, failed(error: unknown): void}} hear */
  constructor(api, hear) {
    this.api = api;
    this.hear = hear;
    addEventListener("pagehide", () => {
      for (const id of [...this.#waiting.keys()]) void this.#now(id, true);
    });
  }

  /** @param {string} id */
  has(id) {
    return this.#waiting.has(id);
  }

  /** @param {string} id @param {string} title @param {() => void} undone */
  remove(id, title, undone) {
    const byKey = document.activeElement?.matches(":focus-visible") ?? false;
    const undo = () => {
      this.#waiting.delete(id);
      this.hear.changed();
      undone();
      /** @type {HTMLElement | null} */ (document.querySelector(`#list a[href="#/c/${id}"]`))?.focus();
    };
    const offer = toast(text.removed(title), { label: text.undo, act: undo }, GRACE, () => void this.#now(id, false));
    this.#waiting.set(id, offer);
    this.hear.changed();
    if (byKey) offer.querySelector("button")?.focus(); // what had the focus is gone
  }

  /** @param {string} id @param {boolean} leaving */
  async #now(id, leaving) {
    this.#waiting.get(id)?.remove();
    try {
      await this.api.remove(`/page/conversations/${id}`, leaving);
    } catch (error) {
      if (!leaving) this.hear.failed(error);
    }
    this.#waiting.delete(id);
    this.hear.changed();
  }
}
