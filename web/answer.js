// Rendered blocks as elements: patched in place while they grow; code in a frame with its language and a copy button.

import { el, icon, patch, sanitized } from "./dom.js";
import { text } from "./strings.js";

/**
 * Make `parent` show these blocks; those before `from` are known to be the same.
 * @param {Element} parent @param {string[]} blocks @param {number} [from]
 */
export function showBlocks(parent, blocks, from = 0) {
  while (parent.children.length > blocks.length) parent.lastElementChild?.remove();
  for (let n = Math.min(from, parent.children.length); n < blocks.length; n++) {
    const wanted = block(blocks[n]);
    const old = parent.children[n];
    if (old) patch(old, wanted);
    else parent.append(wanted);
  }
}

/** @param {string} html */
function block(html) {
  const made = el("div", { class: "block", dir: "auto" });
  made.append(sanitized(html));
  for (const pre of made.querySelectorAll("pre")) frame(pre);
  for (const table of made.querySelectorAll("table")) {
    const scrolls = el("div", { class: "wide-table", tabindex: "0", role: "group" });
    table.replaceWith(scrolls);
    scrolls.append(table);
  }
  return made;
}

/** @param {HTMLElement} pre */
function frame(pre) {
  const language = pre.firstElementChild?.className.match(/language-([\w+#-]+)/)?.[1] ?? text.code;
  const copy = el("button", { type: "button", class: "copy", "data-copy": "code", "aria-label": text.copyCode }, icon("copy"), el("span", {}, text.copy));
  const figure = el("figure", { class: "code" }, el("figcaption", {}, el("span", {}, language), copy));
  pre.replaceWith(figure);
  pre.setAttribute("tabindex", "0"); // it scrolls, so it must be reachable
  pre.setAttribute("dir", "ltr");
  pre.setAttribute("role", "group");
  pre.setAttribute("aria-label", language);
  figure.append(pre);
}

/** Copy buttons of code work wherever they are. @param {Element} root @param {(words: string) => void} fail */
export function copiesCode(root, fail) {
  root.addEventListener("click", (event) => {
    const button = event.target instanceof Element ? event.target.closest("[data-copy=code]") : null;
    const code = button?.closest("figure")?.querySelector("pre");
    if (button && code) void copy(/** @type {HTMLElement} */ (button), code.textContent ?? "", fail);
  });
}

/** Copy, and say on the button that it was. @param {HTMLElement} button @param {string} words @param {(words: string) => void} fail */
export async function copy(button, words, fail) {
  try {
    await navigator.clipboard.writeText(words);
  } catch {
    if (!copyOldWay(words)) return fail(text.copyFailed); // not allowed, or a page without TLS
  }
  if (button.classList.contains("done")) return;
  const before = [...button.childNodes];
  button.classList.add("done");
  button.replaceChildren(icon("check"), el("span", { class: before.length > 1 ? null : "unseen", role: "status" }, text.copied));
  setTimeout(() => {
    button.classList.remove("done");
    button.replaceChildren(...before);
  }, 1500);
}

/** For pages that are not served from localhost or with TLS. @param {string} words */
function copyOldWay(words) {
  const field = /** @type {HTMLTextAreaElement} */ (el("textarea", { class: "unseen", readonly: true }));
  const focused = document.activeElement;
  field.value = words;
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  return copied;
}
