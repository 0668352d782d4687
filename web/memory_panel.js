// The panel that shows the server's memory: how much there is, and the tree of what is remembered, as it changes.

import { Problem } from "./api.js";
import { el, iconButton } from "./dom.js";
import { bytes, number } from "./figures.js";
import { MemoryPicture } from "./memory_picture.js";
import { text } from "./strings.js";
import { Subscription } from "./subscription.js";
/** @import { Api } from "./api.js" */
/** @import { Device, MemoryView, Piece } from "./types.js" */

export class MemoryPanel {
  /** @type {Subscription | null} */
  #subscription = null;
  /** @type {MemoryView | null} */
  #view = null;
  #conversation = "";
  #frame = 0;
  #told = 0;

  /** @param {HTMLElement} root @param {Api} api @param {{close(): void, open(conversation: string): void}} actions */
  constructor(root, api, actions) {
    this.api = api;
    this.bar = el("div", { class: "bar tall", "aria-hidden": "true" });
    this.sum = el("p", { class: "sum" });
    this.figures = el("dl", { class: "figures" });
    this.note = el("p", { class: "hint" });
    this.more = el("p", { class: "faint" });
    this.detail = el("div", { class: "detail", "aria-live": "polite" });
    const frame = el("div", { class: "picture" });
    this.tree = el("div", { class: "stacked" }, el("p", { class: "faint intro" }, text.memoryIntro), frame, this.detail, legend());
    this.body = el("div", { class: "stacked", hidden: true }, this.sum, this.bar, this.figures, this.tree, this.more);
    this.picture = new MemoryPicture(frame, {
      look: (piece) => this.#look(piece),
      open: (piece) => piece.conversation && actions.open(piece.conversation),
    });
    root.append(
      el("header", {}, el("h2", {}, text.memoryTitle), iconButton("close", text.close, actions.close)),
      el("div", { class: "scrolls", tabindex: "0", role: "group", "aria-label": text.memoryTitle },
        this.note, this.body),
    );
    new ResizeObserver(() => this.#soon()).observe(frame);
    this.#look(null);
  }

  /** @param {string} conversation the one that is open, or "" */
  open(conversation) {
    if (this.#subscription && conversation === this.#conversation) return;
    this.#conversation = conversation;
    this.#subscription?.close();
    const query = conversation ? `?${new URLSearchParams({ conversation })}` : "";
    this.#subscription = new Subscription(
      (signal) => this.api.stream(`/page/memory/events${query}`, signal),
      (event) => {
        if (event.type === "error") this.note.textContent = event.error.message;
        if (event.type !== "memory") return;
        this.#view = event;
        this.#told = performance.now();
        this.#soon();
      },
      ({ state }) => state === "lost" && (this.note.textContent = text.memoryFailed),
      (error) => error instanceof Problem && error.status === 404,
    );
    this.#soon();
  }

  close() {
    this.#subscription?.close();
    this.#subscription = null;
  }

  /** At most once a frame, whatever comes. */
  #soon() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#view && this.#render(this.#view));
  }

  /** @param {MemoryView} view */
  #render({ device, nodes, more, others }) {
    const untaken = Math.max(0, device.limit_bytes - device.physical_bytes);
    const held = device.used_bytes + device.shared_bytes; // the device's own "shared" counts the tree as one of the holders
    const shared = Math.min(held, nodes.reduce((sum, piece) => sum + (piece.shared ? piece.bytes : 0), 0));
    const parts = /** @type {[string, number, string][]} */ ([
      ["private", held - shared, text.used], ["shared", shared, text.shared],
      ["free", device.free_bytes, text.free], ["untaken", untaken, text.untaken],
    ]);
    this.sum.textContent = text.ofLimit(held, device.limit_bytes);
    this.bar.replaceChildren(...parts.map(([key, size]) => {
      const part = el("span", { class: `part ${key}` });
      part.hidden = size === 0;
      part.style.inlineSize = `${(100 * size) / Math.max(1, device.limit_bytes)}%`;
      return part;
    }));
    this.figures.replaceChildren(...parts.map(([key, size, name]) => figure(bytes(size), name, key)), ...this.#plain(device));
    const said = [more ? text.notShown(more) : "", others?.nodes ? text.othersHold(others.nodes, others.bytes) : ""];
    this.more.textContent = said.filter(Boolean).join(" ");
    this.body.hidden = false;
    this.tree.hidden = nodes.length === 0;
    this.note.textContent = nodes.length === 0 ? text.memoryEmpty : "";
    if (nodes.length) this.picture.show(nodes, device.chunk_tokens, this.#conversation);
  }

  /** @param {Device} device */
  #plain(device) {
    const said = [figure(bytes(device.given_back_bytes), text.givenBack), figure(`${number(device.running)}, ${number(device.waiting)}`, text.runningNow)];
    if (device.device_free_bytes !== null) said.push(figure(bytes(device.device_free_bytes), text.deviceFree));
    said.push(figure(bytes(device.chunk_bytes), text.chunkOf(device.chunk_tokens)));
    return said;
  }

  /** @param {Piece | null} piece */
  #look(piece) {
    if (!piece) return this.detail.replaceChildren(el("p", { class: "faint" }, text.pieceHint));
    const state = [
      piece.shared ? text.pieceShared : text.piecePrivate, text.tiers[piece.tier] ?? piece.tier, piece.in_use ? text.pieceUse : text.pieceIdle(piece.idle_s + (performance.now() - this.#told) / 1000),
      piece.warm && text.pieceWarm, piece.next === null ? piece.in_use && text.pieceKept : text.pieceNext(piece.next), piece.conversation && text.openPiece,
    ].filter(Boolean).join(" · ");
    this.detail.replaceChildren(
      el("p", {}, el("strong", { dir: "auto" }, piece.title ?? text.pieceTokens(piece.start, piece.end))),
      el("p", {}, piece.title ? `${text.pieceTokens(piece.start, piece.end)} · ` : "", text.pieceChunks(piece.chunks, piece.bytes)),
      el("p", { class: "faint" }, state),
    );
  }
}

/** @param {string} value @param {string} name @param {string} [key] */
function figure(value, name, key) {
  return el("div", {}, el("dt", {}, key ? el("i", { class: `key ${key}` }) : null, name), el("dd", {}, value));
}

function legend() {
  const entries = [["private", text.legendPrivate], ["shared", text.legendShared], ["here", text.legendHere], ["used", text.legendUse], ["warm", text.legendWarm], ["next", text.legendNext]];
  return el("ul", { class: "legend" }, ...entries.map(([key, name]) => el("li", {}, el("i", { class: `key ${key}` }), name)));
}
