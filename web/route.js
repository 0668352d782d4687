// Where the page is: `#/` a new conversation, `#/c/conv_…` one of them, `#/c/conv_…/resp_…` a branch of it.

/** @typedef {{conversation: string | null, turn: string | null}} Route */

/** @returns {Route} */
export function route() {
  const [, conversation, turn] = location.hash.match(/^#\/c\/(conv_[\w-]+)(?:\/(resp_[\w-]+))?$/) ?? [];
  return { conversation: conversation ?? null, turn: turn ?? null };
}

/** Without a step for the back button. @param {string} conversation @param {string | null} [turn] */
export function rename(conversation, turn = null) {
  history.replaceState(null, "", `#/c/${conversation}${turn ? `/${turn}` : ""}`);
}

/** @param {string | null} conversation */
export function go(conversation) {
  location.hash = conversation ? `#/c/${conversation}` : "#/";
}
