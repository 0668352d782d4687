// The two side panels: columns where there is room for them, drawers over the page where there is not.

import { byId } from "./dom.js";
import { keep, kept } from "./kept.js";

const SIDE_FITS = matchMedia("(min-width: 900px)");
const MEMORY_FITS = matchMedia("(min-width: 1240px)");

export class Frame {
  #side = false;
  #memory = false;
  /** @type {HTMLElement | null} */
  #from = null;

  /** @param {(open: boolean) => void} memory told when the memory's panel opens and closes */
  constructor(memory) {
    this.memoryChanged = memory;
    byId("side-open").addEventListener("click", () => this.side(!this.#side));
    byId("side-close").addEventListener("click", () => this.side(false));
    byId("memory-toggle").addEventListener("click", () => this.memory(!this.#memory));
    byId("veil").addEventListener("click", () => this.escape());
    SIDE_FITS.addEventListener("change", () => this.side(SIDE_FITS.matches));
    MEMORY_FITS.addEventListener("change", () => MEMORY_FITS.matches || this.memory(false, false));
    this.side(SIDE_FITS.matches);
    this.memory(MEMORY_FITS.matches && kept("memory") !== "closed", false);
  }

  /** @param {boolean} open */
  side(open) {
    this.#side = open;
    document.body.classList.toggle("side-open", open);
    byId("side").hidden = !open;
    byId("side-open").setAttribute("aria-expanded", String(open));
    this.#over(open && !SIDE_FITS.matches, "side");
  }

  /** @param {boolean} open @param {boolean} [chosen] its user wants it so */
  memory(open, chosen = true) {
    if (chosen && MEMORY_FITS.matches) keep("memory", open ? null : "closed");
    const changed = open !== this.#memory;
    this.#memory = open;
    document.body.classList.toggle("memory-open", open);
    byId("memory").hidden = !open;
    byId("memory-toggle").setAttribute("aria-expanded", String(open));
    if (changed) this.memoryChanged(open);
    this.#over(open && !MEMORY_FITS.matches, "memory");
  }

  toggleMemory() {
    this.memory(!this.#memory);
  }

  get memoryOpen() {
    return this.#memory;
  }

  /** The list must be seen, for its search. */
  showSide() {
    if (!this.#side) this.side(true);
  }

  /** A drawer that has done its work. */
  settle() {
    if (!SIDE_FITS.matches && this.#side) this.side(false);
    if (!MEMORY_FITS.matches && this.#memory) this.memory(false);
  }

  /** Close a drawer. @returns {boolean} whether there was one */
  escape() {
    if (byId("veil").hidden) return false;
    this.settle();
    return true;
  }

  /** A drawer has the page for itself while it is open. @param {boolean} over @param {"side" | "memory"} name */
  #over(over, name) {
    const other = name === "side" ? this.#memory && !MEMORY_FITS.matches : this.#side && !SIDE_FITS.matches;
    if (over && other) name === "side" ? this.memory(false, false) : this.side(false);
    const veiled = over || (other && !over);
    const before = !byId("veil").hidden;
    byId("veil").hidden = !veiled;
    byId("main").inert = veiled;
    if (veiled && !before) {
      this.#from = document.activeElement instanceof HTMLElement ? document.activeElement : null;
      /** @type {HTMLElement | null} */ (byId(name).querySelector("button, input"))?.focus();
    } else if (!veiled && before) this.#from?.focus();
  }
}
