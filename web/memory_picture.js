// The rTree as a picture: a box a piece. Kept elements are moved, not made again, so that 500 of them stay smooth.

import { vector } from "./dom.js";
import { layout, pathOf } from "./memory_layout.js";
import { text } from "./strings.js";
/** @import { Piece } from "./types.js" */

const TALLEST = 26;
const LOWEST = 5;
const NAMED = 15; // px a row must have to carry words
const LEGIBLE = 8; // px below which a row has no room for the edges of chunks
const LETTER = 6.8; // px, about
const CHUNK = 5; // px below which the edges of chunks are not drawn

export class MemoryPicture {
  /** @type {Map<number, SVGGElement>} */
  #made = new Map();
  /** @type {Piece[]} */
  #pieces = [];
  #at = -1;

  /** @param {HTMLElement} frame @param {{look(piece: Piece | null): void, open(piece: Piece): void}} actions */
  constructor(frame, actions) {
    this.actions = actions;
    this.frame = frame;
    this.svg = vector("svg", { class: "rtree", role: "application", tabindex: "0" });
    frame.append(this.svg);
    this.svg.addEventListener("pointerover", (event) => this.#look(this.#under(event)));
    this.svg.addEventListener("pointerleave", () => this.#look(null));
    this.svg.addEventListener("focus", () => this.#walk(0));
    this.svg.addEventListener("blur", () => this.#look(null));
    this.svg.addEventListener("click", (event) => {
      const piece = this.#under(event);
      if (piece) this.actions.open(piece);
    });
    this.svg.addEventListener("keydown", (event) => this.#key(/** @type {KeyboardEvent} */ (event)));
  }

  /** @param {Piece[]} pieces @param {number} chunk tokens @param {string} conversation */
  show(pieces, chunk, conversation) {
    const { boxes, rows, tokens } = layout(pieces);
    const width = Math.max(40, this.frame.clientWidth);
    const row = Math.max(LOWEST, Math.min(TALLEST, Math.floor(360 / Math.max(1, rows))));
    const scale = (row < NAMED ? width : width * 0.8) / tokens; // names stand beside their rows
    const path = pathOf(pieces, conversation);
    const next = Math.min(...pieces.map((piece) => piece.next ?? Infinity)); // others' may come before it
    this.#pieces = pieces;
    this.svg.setAttribute("width", String(width));
    this.svg.setAttribute("height", String(rows * row));
    this.svg.setAttribute("aria-label", text.pictureLabel(pieces.length, boxes.filter(({ leaf }) => leaf).length));
    this.svg.classList.toggle("many", pieces.length > 120);
    const seen = new Set();
    for (const box of boxes) {
      const { piece } = box;
      seen.add(piece.id);
      const group = this.#made.get(piece.id) ?? this.#make(piece.id);
      const x = box.x * scale;
      const wide = Math.max(2, box.width * scale - 1);
      set(group, "class", classes(piece, path.has(piece.id), piece.next === next));
      group.style.transform = `translate(${x.toFixed(1)}px, ${box.y * row}px)`;
      const rect = /** @type {SVGElement} */ (group.firstElementChild);
      rect.style.width = `${wide.toFixed(1)}px`;
      rect.style.height = `${Math.max(2, box.height * row - 1)}px`;
      edges(/** @type {SVGElement} */ (group.children[1]), row < LEGIBLE ? 0 : chunk * scale, wide, box.height * row - 1, piece.chunks);
      set(group.children[3], "cx", (wide - 7).toFixed(1));
      set(group.children[3], "cy", String(Math.max(2, box.height * row - 1) / 2));
      name(/** @type {SVGElement} */ (group.children[2]), row >= NAMED && box.leaf ? (piece.title ?? "") : "", wide, width - x, row);
    }
    for (const [id, group] of this.#made) {
      if (seen.has(id)) continue;
      group.remove();
      this.#made.delete(id);
    }
  }

  /** @param {number} id */
  #make(id) {
    const group = /** @type {SVGGElement} */ (vector("g", { "data-piece": id }));
    group.append(vector("rect", { rx: 2 }), vector("path"), vector("text", { x: 6 }), vector("circle", { r: 3 }));
    this.#made.set(id, group);
    this.svg.append(group);
    return group;
  }

  /** @param {Event} event */
  #under(event) {
    const group = event.target instanceof Element ? event.target.closest("[data-piece]") : null;
    return this.#pieces.find((piece) => piece.id === Number(group?.getAttribute("data-piece"))) ?? null;
  }

  /** @param {Piece | null} piece */
  #look(piece) {
    this.svg.querySelector(".looked")?.classList.remove("looked");
    if (piece) this.#made.get(piece.id)?.classList.add("looked");
    this.actions.look(piece);
  }

  /** @param {number} step */
  #walk(step) {
    if (this.#pieces.length === 0) return;
    this.#at = Math.max(0, Math.min(this.#pieces.length - 1, this.#at + step));
    this.#look(this.#pieces[this.#at]);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (step) (event.preventDefault(), this.#walk(step));
    if (event.key === "Enter" && this.#pieces[this.#at]) this.actions.open(this.#pieces[this.#at]);
  }
}

/** @param {Piece} piece @param {boolean} here @param {boolean} next */
function classes(piece, here, next) {
  return [
    "piece", `tier-${piece.tier}`, piece.shared ? "shared" : "private", piece.in_use && "used", piece.warm && "warm", next && "next", here && "here",
    piece.conversation && "opens",
  ].filter(Boolean).join(" ");
}

/** Lines where one chunk ends and the next begins. @param {SVGElement} path @param {number} chunk px @param {number} width @param {number} height @param {number} chunks */
function edges(path, chunk, width, height, chunks) {
  let lines = "";
  if (chunk >= CHUNK) for (let n = 1; n < chunks && n * chunk < width; n++) lines += `M${(n * chunk).toFixed(1)} 0V${height}`;
  set(path, "d", lines);
}

/** Inside its box, or after it, where there is more room: nothing else is in an end's row. @param {SVGElement} element @param {string} title @param {number} wide @param {number} room px @param {number} row */
function name(element, title, wide, room, row) {
  const inside = Math.floor((wide - 22) / LETTER);
  const after = Math.floor((room - wide - 8) / LETTER);
  const fits = title.length <= inside || inside >= after;
  const most = fits ? inside : after;
  const words = title.length <= most ? title : most < 5 ? "" : `${title.slice(0, most - 1)}…`;
  if (element.textContent !== words) element.textContent = words;
  set(element, "x", fits ? "6" : (wide + 6).toFixed(1));
  set(element, "y", String(row / 2 + 3.5));
}

/** @param {Element} element @param {string} key @param {string} value */
function set(element, key, value) {
  if (element.getAttribute(key) !== value) element.setAttribute(key, value);
}
