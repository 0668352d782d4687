// A conversation's turns as a tree: which are shown, and which stand beside them.

/** @import { TurnView } from "./types.js" */

/** @typedef {Map<string, TurnView>} Turns in the order they were made */

/** From the first turn to this one. @param {Turns} turns @param {string | null} leaf @returns {TurnView[]} */
export function path(turns, leaf) {
  /** @type {TurnView[]} */
  const found = [];
  for (let turn = turns.get(leaf ?? ""); turn; turn = turns.get(turn.parent ?? "")) {
    if (found.includes(turn)) break;
    found.push(turn);
  }
  return found.reverse();
}

/** Turns that go on from the same one, this one among them. @param {Turns} turns @param {TurnView} turn @returns {TurnView[]} */
export function versions(turns, turn) {
  const known = turn.parent !== null && turns.has(turn.parent) ? turn.parent : null;
  return [...turns.values()].filter((other) =>
    known === null ? other.parent === null || !turns.has(other.parent) : other.parent === known,
  );
}

/** The newest end of what goes on from this turn. @param {Turns} turns @param {string} id @returns {string} */
export function newestEnd(turns, id) {
  let end = id;
  const below = new Set([id]);
  for (const turn of turns.values()) {
    if (turn.parent !== null && below.has(turn.parent)) {
      below.add(turn.id);
      end = turn.id;
    }
  }
  return end;
}

/** Nothing was said: where a conversation begins, or what was deleted. @param {TurnView} turn */
export const empty = (turn) => turn.messages.length === 0 && turn.answer === null && turn.status !== "running" && turn.status !== "pending";

/** The server does not have it. @param {TurnView} turn */
export const lost = (turn) => Boolean(turn.error && !turn.usage);

/** The turn to go on from, at this one or before it; null: where the conversation begins. @param {Turns} turns @param {string | null} id @returns {string | null} */
export function goesOn(turns, id) {
  let turn = turns.get(id ?? "");
  while (turn && (empty(turn) || lost(turn))) turn = turns.get(turn.parent ?? "");
  return turn?.id ?? null;
}

/** What its user said, for asking again. @param {TurnView} turn @returns {string} */
export function asked(turn) {
  return turn.messages.filter((message) => message.role === "user").map((message) => message.text).at(-1) ?? "";
}

/** A turn of which nothing is known yet. @param {string} id @param {string | null} parent @returns {TurnView} */
export function blank(id, parent) {
  return {
    id, parent, status: "pending", created_at: Date.now() / 1000, instructions: null, messages: [], answer: null,
    thinking_html: null, blocks: [], usage: null, times: null, settings: null,
  };
}
