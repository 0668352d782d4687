// The words and icons of the page's frame, which index.html only names.

import { icon } from "./dom.js";
import { text } from "./strings.js";

/** @param {ParentNode} root */
export function fill(root) {
  const said = /** @type {Record<string, string>} */ (/** @type {unknown} */ (text));
  for (const each of root.querySelectorAll("[data-icon]")) each.prepend(icon(each.getAttribute("data-icon") ?? ""));
  for (const each of root.querySelectorAll("[data-text]")) {
    const span = document.createElement("span");
    span.textContent = said[each.getAttribute("data-text") ?? ""];
    each.append(span);
  }
  for (const each of root.querySelectorAll("[data-label]")) {
    const label = said[each.getAttribute("data-label") ?? ""];
    each.setAttribute("aria-label", label);
    if (each.matches("button")) each.setAttribute("title", label);
  }
  for (const each of root.querySelectorAll("[data-placeholder]")) {
    each.setAttribute("placeholder", said[each.getAttribute("data-placeholder") ?? ""]);
  }
}
