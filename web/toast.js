// Short words at the page's edge, with one thing to do about them.

import { byId, el, iconButton } from "./dom.js";
import { text } from "./strings.js";

/**
 * @param {string} words @param {{label: string, act: () => void} | null} [way] @param {number} [ms]
 * @returns {() => void} takes it away
 */
export function toast(words, way = null, ms = 6000) {
  const gone = () => {
    clearTimeout(timer);
    made.remove();
  };
  const made = el("div", { class: "toast", role: "status" }, el("p", { dir: "auto" }, words));
  if (way) {
    const act = () => {
      gone();
      way.act();
    };
    made.append(el("button", { type: "button", class: "button small", onclick: act }, way.label));
  }
  made.append(iconButton("close", text.close, gone));
  byId("toasts").append(made);
  const timer = setTimeout(gone, ms);
  return gone;
}

/** Said aloud to those who cannot see it; rarely. @param {string} words */
export function say(words) {
  byId("status").textContent = words;
}
