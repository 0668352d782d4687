// The words above the messages and the window's title, and the line that says that the connection is lost.

import { byId } from "./dom.js";
import { text } from "./strings.js";
import { path } from "./tree.js";
/** @import { Conversation } from "./conversation.js" */
/** @import { Link } from "./subscription.js" */
/** @import { ServerSettings } from "./types.js" */

/** @param {Conversation | undefined} state @param {string | null | undefined} title what the list calls it @param {ServerSettings} server */
export function showHead(state, title, server) {
  const known = state ? state.title || title || text.untitled : "";
  byId("title").textContent = known || text.untitled;
  document.title = known ? `${known} · chatserve` : "chatserve";
  byId("more").hidden = !state || state.gone;
  const usage = state && path(state.turns, state.shown).findLast((turn) => turn.usage)?.usage;
  const used = usage ? text.context(usage.input_tokens + usage.output_tokens, server.max_model_len ?? null) : "";
  byId("subtitle").textContent = [used, server.model].filter(Boolean).join(" · ");
}

/** @param {Link} link */
export function showLink({ state, wait }) {
  byId("link").hidden = state !== "lost";
  byId("link").textContent = state === "lost" ? text.lost(wait) : "";
}
