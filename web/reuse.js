// The quiet line under an answer, and the words behind it: where reused tokens came from, and why there were no more.

import { el } from "./dom.js";
import { number } from "./figures.js";
import { text } from "./strings.js";
/** @import { Stopped, TurnView } from "./types.js" */

const KINDS = /** @type {const} */ ([
  ["taken_over", text.takenOver, text.takenOverMore],
  ["mapped", text.mapped, text.mappedMore],
  ["copied", text.copiedRows, text.copiedMore],
  ["promoted", text.promoted, text.promotedMore],
]);

/** @param {TurnView} turn @returns {string[]} */
export function lineOf(turn) {
  const said = [];
  if (turn.times?.ttft_ms != null) said.push(text.firstToken(turn.times.ttft_ms));
  if (turn.times?.tokens_per_second != null) said.push(text.rate(turn.times.tokens_per_second));
  if (turn.usage) said.push(text.reused(turn.usage.input_tokens_details.cached_tokens, turn.usage.input_tokens));
  return said;
}

/** The line; null where nothing was measured. @param {TurnView} turn @returns {HTMLElement | null} */
export function reuseLine(turn) {
  const said = lineOf(turn);
  if (said.length === 0) return null;
  const { usage } = turn;
  if (!usage) return el("p", { class: "measured" }, said.join(" · "));
  const bar = el("span", { class: "bar", "aria-hidden": "true" }, el("span", { class: "part reused" }));
  grow(/** @type {HTMLElement} */ (bar.firstElementChild), usage.input_tokens_details.cached_tokens, usage.input_tokens);
  return el(
    "button",
    { type: "button", class: "measured", "data-why": turn.id, "aria-expanded": "false", "aria-haspopup": "true" },
    bar,
    el("span", {}, said.join(" · ")),
  );
}

/** @param {HTMLElement} part @param {number} share @param {number} whole */
function grow(part, share, whole) {
  part.style.inlineSize = `${whole ? (100 * share) / whole : 0}%`;
}

/** What is shown of the line's reasons. @param {TurnView} turn @returns {Node[]} */
export function reasons(turn) {
  const usage = turn.usage;
  if (!usage) return [];
  const sent = usage.input_tokens;
  const cached = usage.input_tokens_details.cached_tokens;
  const reuse = usage.input_tokens_details.chatserve;
  const parts = /** @type {[string, number, string, string][]} */ (
    [...KINDS.map(([key, name, more]) => [key, reuse?.[key] ?? 0, name, more]), ["computed", sent - cached, text.computed, text.computedMore]]
  ).filter(([, tokens]) => tokens > 0);
  const bar = el("div", { class: "bar tall", "aria-hidden": "true" });
  const rows = el("dl", { class: "shares" });
  for (const [key, tokens, name, more] of parts) {
    const part = el("span", { class: `part ${key}` });
    grow(part, tokens, sent);
    bar.append(part);
    rows.append(el("div", {}, el("dt", {}, el("i", { class: `key ${key}` }), `${number(tokens)} ${name}`), el("dd", {}, more)));
  }
  const said = [el("p", { class: "head" }, text.whyTitle(sent)), bar, rows];
  if (reuse) {
    const tell = text.why[reuse.stopped?.why ?? "none"];
    const stopped = /** @type {Stopped} */ (reuse.stopped);
    said.push(el("p", { class: "head" }, text.whyNotMore), el("p", { dir: "auto" }, tell ? tell(stopped) : String(stopped?.why)));
  }
  said.push(el("p", { class: "faint" }, text.made(usage.output_tokens)));
  return said;
}
