// How answers are made: the system prompt and the sampling, for a conversation, or for those that are yet to begin.

import { openDialog } from "./dialogs.js";
import { el } from "./dom.js";
import { keep, keptJson } from "./kept.js";
import { text } from "./strings.js";
/** @import { Sampling, ServerSettings, TurnView } from "./types.js" */

/** @typedef {{instructions: string | null, settings: Sampling}} How */

/** name, least, most, step */
const FIELDS = /** @type {const} */ ([
  ["temperature", 0, 2, 0.1],
  ["top_p", 0.01, 1, 0.01],
  ["top_k", 1, 1000, 1],
  ["min_p", 0, 1, 0.01],
  ["repetition_penalty", 0.1, 2, 0.05],
  ["presence_penalty", -2, 2, 0.1],
  ["frequency_penalty", -2, 2, 0.1],
  ["max_output_tokens", 1, null, 1],
  ["seed", 0, null, 1],
]);

/** What is set for a conversation; where nothing was, as its last turn was made. @param {string | null} conversation @param {TurnView} [last] @returns {How} */
export function howOf(conversation, last) {
  const set = keptJson(`how.${conversation ?? "new"}`);
  if (set) return { instructions: set.instructions ?? null, settings: set.settings ?? {} };
  if (last) return { instructions: last.instructions, settings: known(last.settings) };
  return { instructions: null, settings: {} };
}

/** A turn's settings, as far as they are ours to set. @param {Sampling | null} settings */
function known(settings) {
  const names = /** @type {readonly string[]} */ (FIELDS.map(([name]) => name));
  return Object.fromEntries(Object.entries(settings ?? {}).filter(([name, value]) => names.includes(name) && value !== null));
}

/** @param {string | null} conversation @param {How} how */
export function keepHow(conversation, how) {
  keep(`how.${conversation ?? "new"}`, JSON.stringify(how));
}

/**
 * @param {string | null} conversation @param {How} how @param {ServerSettings} server
 * @param {{forgetKey: (() => void) | null}} more
 */
export function settingsDialog(conversation, how, server, more) {
  const instructions = /** @type {HTMLTextAreaElement} */ (el("textarea", { rows: "4", dir: "auto", placeholder: text.instructionsHint }));
  instructions.value = how.instructions ?? "";
  const fields = FIELDS.map(([name, min, max, step]) => {
    const hint = text.asModel(server.defaults?.[name]);
    const field = /** @type {HTMLInputElement} */ (
      el("input", { type: "number", inputmode: "decimal", name, min, max, step: step < 1 ? "any" : step, placeholder: hint, "aria-describedby": `more-${name}` })
    );
    field.value = String(how.settings[name] ?? "");
    return field;
  });
  const changed = () => {
    const settings = Object.fromEntries(fields.filter((field) => field.value !== "" && field.validity.valid).map((field) => [field.name, Number(field.value)]));
    keepHow(conversation, { instructions: instructions.value.trim() || null, settings });
  };
  const reset = () => {
    for (const field of fields) field.value = "";
    changed();
  };
  const words = /** @type {Record<string, string>} */ (/** @type {unknown} */ (text));
  const dialog = openDialog(text.settings, [
    el("form", { class: "stack", oninput: changed, onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), dialog.close()) },
      el("p", { class: "faint" }, conversation === null ? text.settingsNew : text.settingsHere),
      modelField(server),
      el("label", { class: "labelled" }, el("span", {}, text.instructions), instructions),
      el("fieldset", {}, el("legend", {}, text.sampling),
        el("div", { class: "fields" }, ...fields.map((field) =>
          el("label", { class: "labelled" }, el("span", {}, words[field.name]), field, el("small", { id: `more-${field.name}` }, words[`${field.name}More`]))))),
      el("p", { class: "row end" },
        more.forgetKey && el("button", { type: "button", class: "quiet", onclick: () => (dialog.close(), more.forgetKey?.()) }, text.keyForget),
        el("button", { type: "button", class: "quiet", onclick: reset }, text.reset),
        el("button", { type: "submit", class: "button" }, text.done))),
  ]);
  dialog.addEventListener("cancel", (event) => dialog.querySelector("form")?.reportValidity() || event.preventDefault());
}

/** @param {ServerSettings} server */
function modelField(server) {
  if (!server.model) return null;
  return el("p", { class: "labelled" }, el("span", {}, text.model), el("span", { dir: "auto" }, text.modelMore(server.model, server.max_model_len ?? null)));
}
