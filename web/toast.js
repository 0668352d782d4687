// Short words at the page's edge, with one thing to do about them.

import { byId, el, iconButton } from "./dom.js";
import { text } from "./strings.js";

const AGE = 6_000;

/**
 * Its time stands still while it is pointed at or has the focus.
 * @param {string} words @param {{label: string, act: () => void} | null} [way] @param {number} [ms] @param {() => void} [over] its time is over, or
 *   it was closed, and nothing was done about it
 * @returns {HTMLElement}
 */
export function toast(words, way = null, ms = AGE, over = () => {}) {
  let timer = 0;
  const hold = () => clearTimeout(timer);
  const gone = () => {
    hold();
    made.remove();
  };
  const end = () => {
    gone();
    over();
  };
  const wait = () => {
    hold();
    timer = setTimeout(() => made.isConnected && end(), ms); // whoever takes it away has seen to it
  };
  const made = el("div", { class: "toast", role: "status", onpointerenter: hold, onpointerleave: wait, onfocusin: hold, onfocusout: wait }, el("p", { dir: "auto" }, words));
  if (way) {
    const act = () => {
      gone();
      way.act();
    };
    made.append(el("button", { type: "button", class: "button small", onclick: act }, way.label));
  }
  made.append(iconButton("close", text.close, end));
  byId("toasts").append(made);
  wait();
  return made;
}

/** Said aloud to those who cannot see it; rarely. @param {string} words */
export function say(words) {
  byId("status").textContent = words;
}
