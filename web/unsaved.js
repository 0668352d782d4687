// Questions that a server took and has not saved yet: it saves a turn when it ends, and one that is killed saves nothing.

import { keep, keptJson } from "./kept.js";
import { blank, empty } from "./tree.js";
/** @import { Turns } from "./tree.js" */

/** @typedef {{id: string, parent: string | null, input: string}} Question */

const MOST = 5;

export class Unsaved {
  #name;

  /** @param {string} conversation */
  constructor(conversation) {
    this.#name = `asked.${conversation}`;
  }

  /** @param {Question} question */
  keep(question) {
    this.#write([...this.#questions().filter((each) => each.id !== question.id), question].slice(-MOST));
  }

  /** It is saved, or was asked again. @param {string} id */
  forget(id) {
    const questions = this.#questions();
    if (questions.some((each) => each.id === id)) this.#write(questions.filter((each) => each.id !== id));
  }

  /** Forget what is in the tree; put what is neither there nor under way into it, as failed. @param {Turns} turns @param {string | null} running @param {string} why */
  settle(turns, running, why) {
    for (const { id, parent, input } of this.#questions()) {
      const turn = turns.get(id);
      if (turn && turn.status !== "running" && turn.status !== "pending" && !turn.error && !empty(turn)) this.forget(id);
      if (turn || id === running) continue;
      turns.set(id, { ...blank(id, parent), status: "failed", messages: [{ role: "user", text: input, html: null }], error: { message: why } });
    }
  }

  /** @returns {Question[]} */
  #questions() {
    const kept = keptJson(this.#name);
    return Array.isArray(kept) ? kept : [];
  }

  /** @param {Question[]} questions */
  #write(questions) {
    keep(this.#name, questions.length > 0 ? JSON.stringify(questions) : null);
  }
}
