// One turn on the page: what was said, the answer, what went wrong, the line of measurements, what can be done.

import { advice } from "./api.js";
import { copy, showBlocks } from "./answer.js";
import { el, icon, iconButton, sanitized } from "./dom.js";
import { lineOf, reuseLine } from "./reuse.js";
import { text } from "./strings.js";
import { asked } from "./tree.js";
/** @import { ErrorView, Message, TurnView as Turn } from "./types.js" */

/**
 * @typedef {object} TurnActions
 * @property {(turn: Turn) => void} again
 * @property {(turn: Turn, words: string) => Promise<boolean>} edit
 * @property {(id: string) => void} show
 * @property {(running: string) => void} stop
 * @property {(words: string) => void} complain
 */
/** @typedef {{at: number, ids: string[], busy: boolean}} Standing which of its versions a turn is; busy: no other may begin now */

export class TurnView {
  #said = "";
  #made = "";

  /** @param {Turn} turn @param {TurnActions} actions */
  constructor(turn, actions) {
    this.turn = turn;
    this.actions = actions;
    this.filled = false;
    this.messages = el("div", { class: "messages" });
    this.thinkingBody = el("div", { class: "prose" });
    this.thinkingHead = el("span");
    this.thinking = el("details", { class: "thinking", hidden: true }, el("summary", {}, this.thinkingHead), this.thinkingBody);
    this.answer = el("div", { class: "answer prose" });
    this.notes = el("div", { class: "notes" });
    this.writing = el("p", { class: "measured", hidden: true });
    this.foot = el("footer");
    this.root = el("article", { class: "turn", tabindex: "-1" }, this.messages, this.thinking, this.answer, this.notes, this.writing, this.foot);
  }

  /** @param {Turn} turn @param {Standing} standing */
  update(turn, standing) {
    this.filled = true;
    this.turn = turn;
    this.standing = standing;
    this.root.dataset.id = turn.id;
    this.root.dataset.status = turn.status;
    this.root.setAttribute("aria-label", `${text.you}: ${asked(turn).slice(0, 80)}`);
    this.root.setAttribute("aria-busy", String(this.busy));
    this.#messages();
    this.text(0);
    this.#foot();
  }

  get busy() {
    return this.turn.status === "running" || this.turn.status === "pending";
  }

  /** Blocks from `from` on may be other ones. @param {number} from */
  text(from) {
    const { turn } = this;
    showBlocks(this.answer, turn.blocks, from);
    const thinks = Boolean(turn.thinking_html);
    this.thinking.hidden = !thinks;
    if (thinks) {
      this.thinkingHead.textContent = this.busy && turn.blocks.length === 0 ? text.thinking : text.thought;
      showBlocks(this.thinkingBody, [turn.thinking_html ?? ""]);
    }
    this.writing.hidden = !(this.busy && turn.tokens);
    if (!this.writing.hidden) this.writing.textContent = text.writing(turn.tokens ?? 0);
    this.#notes();
  }

  #messages() {
    const { messages } = this.turn;
    const key = messages.map((message) => `${message.role}\n${message.html ?? message.text}`).join("\0");
    if (key === this.#said) return;
    this.#said = key;
    this.messages.replaceChildren(...messages.map((message) => this.#message(message)));
  }

  /** @param {Message} message */
  #message({ role, text: words, html }) {
    const who = { user: text.you, assistant: text.assistant }[role] ?? text.system;
    const body = el("div", { class: "prose" });
    if (html === null) body.append(el("p", { class: "as-typed", dir: "auto" }, words));
    else showBlocks(body, [html]);
    const tools = el("div", { class: "tools" });
    if (role === "user") {
      tools.append(
        iconButton("edit", text.edit, () => this.edit()),
        iconButton("copy", text.copyMessage, (event) => copy(/** @type {HTMLElement} */ (event.currentTarget), words, this.actions.complain)),
      );
    }
    return el("div", { class: `message ${role}` }, el("h2", { class: "unseen" }, who), body, tools);
  }

  /** Beneath the answer: that it has not begun, was stopped, went wrong. */
  #notes() {
    const { turn } = this;
    const waiting = this.busy && turn.blocks.length === 0 && !turn.thinking_html;
    const key = `${turn.status} ${waiting} ${turn.error?.message} ${turn.blocks.length > 0}`;
    if (key === this.notes.dataset.key) return;
    this.notes.dataset.key = key;
    const said = [];
    if (waiting) said.push(el("p", { class: "waiting" }, el("span", { class: "pulse", "aria-hidden": "true" }), el("span", {}, text.waiting)));
    if (turn.error) said.push(errorCard(turn.error, [[text.tryAgain, () => this.actions.again(turn)]]));
    else if (turn.status === "failed") said.push(errorCard({ message: text.wasFailed }, [[text.tryAgain, () => this.actions.again(turn)]]));
    if (turn.status === "cancelled") said.push(el("p", { class: "note" }, text.wasCancelled));
    if (turn.status === "length") said.push(el("p", { class: "note" }, text.wasLength));
    this.notes.replaceChildren(...said);
  }

  #foot() {
    const { turn, standing } = this;
    const key = JSON.stringify([turn.status, standing, lineOf(turn), turn.usage]);
    if (key === this.#made) return;
    this.#made = key;
    const focused = this.foot.contains(document.activeElement) ? document.activeElement?.getAttribute("aria-label") : null;
    this.foot.replaceChildren();
    const has = turn.answer !== null && !this.busy;
    const line = this.busy ? null : reuseLine(turn);
    if (line) this.foot.append(line);
    const tools = el("div", { class: "tools" });
    if (standing && standing.ids.length > 1) tools.append(this.#switcher(standing));
    if (has) {
      tools.append(
        iconButton("copy", text.copyAnswer, (event) =>
          copy(/** @type {HTMLElement} */ (event.currentTarget), turn.answer ?? "", this.actions.complain)),
      );
    }
    if (has && turn.status !== "failed" && asked(turn)) {
      tools.append(iconButton("retry", text.retry, () => this.actions.again(turn), { disabled: standing?.busy ?? false }));
    }
    if (tools.firstChild) this.foot.append(tools);
    if (focused) /** @type {HTMLElement | null} */ (this.foot.querySelector(`[aria-label="${CSS.escape(focused)}"]`))?.focus();
  }

  /** @param {Standing} standing */
  #switcher({ at, ids }) {
    const to = (/** @type {number} */ n) => () => this.actions.show(ids[n]);
    return el(
      "div",
      { class: "switcher", role: "group", "aria-label": text.branchLabel(at + 1, ids.length) },
      iconButton("left", text.previousBranch, to(at - 1), { disabled: at === 0 }),
      el("span", { "aria-hidden": "true" }, text.branch(at + 1, ids.length)),
      iconButton("right", text.nextBranch, to(at + 1), { disabled: at === ids.length - 1 }),
    );
  }

  get editing() {
    return this.messages.querySelector("form") !== null;
  }

  /** Its last message becomes a field. */
  edit() {
    const shown = this.messages.lastElementChild;
    if (!shown || this.editing) return;
    const field = /** @type {HTMLTextAreaElement} */ (el("textarea", { "aria-label": text.editLabel, dir: "auto", rows: "3" }));
    field.value = asked(this.turn);
    const back = () => {
      this.#said = "";
      this.#messages();
      /** @type {HTMLElement | null} */ (this.messages.querySelector(".tools button"))?.focus();
    };
    const send = async () => {
      const words = field.value.trim();
      if (words && !this.standing?.busy && (await this.actions.edit(this.turn, words))) back();
    };
    const form = el(
      "form",
      { class: "editor", onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void send()) },
      field,
      el("div", { class: "row" },
        el("button", { type: "button", class: "quiet", onclick: back }, text.cancel),
        el("button", { type: "submit", class: "button" }, icon("send"), text.editSend)),
    );
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") (event.stopPropagation(), back());
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) (event.preventDefault(), void send());
    });
    shown.replaceWith(form);
    field.style.blockSize = `${Math.min(field.scrollHeight + 4, innerHeight / 2)}px`;
    field.focus();
  }

  /** How many words the answer has. */
  words() {
    return (this.turn.answer ?? "").split(/\s+/).filter(Boolean).length;
  }
}

/**
 * What went wrong, where it did, and what to do. @param {ErrorView} error @param {[string, () => void][]} ways
 */
export function errorCard(error, ways) {
  const what = advice(error);
  return el(
    "div",
    { class: "error", role: "alert" },
    el("p", {}, el("strong", {}, what ?? text.errorTitle)),
    el("p", { class: "faint", dir: "auto" }, error.message),
    el("p", { class: "row" }, ...ways.map(([name, act]) => el("button", { type: "button", class: "button small", onclick: act }, name))),
  );
}
