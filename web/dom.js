// Making elements. Text is text; HTML comes in through `sanitized` alone.

/** @typedef {Record<string, unknown>} Attributes */

/**
 * An element. `on…` are listeners, false and null leave an attribute out, true is an empty one.
 * @param {string} name @param {Attributes} [attributes] @param {(Node | string | null | false)[]} children
 * @returns {HTMLElement}
 */
export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== false));
  return made;
}

/** The element with this id, which the page has. @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no #${id}`);
  return found;
}

const SAFE_LINK = /^(https?:|mailto:)/i;

/**
 * HTML that the server has rendered and sanitized, as nodes. The only place where HTML is parsed: nothing in it runs (the
 * content policy), and links go to http, https and mail only, in a new tab that learns nothing of this one.
 * @param {string} html @returns {DocumentFragment}
 */
export function sanitized(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  for (const link of template.content.querySelectorAll("a")) {
    const target = link.getAttribute("href") ?? "";
    if (!SAFE_LINK.test(target)) link.removeAttribute("href");
    link.setAttribute("target", "_blank");
    link.setAttribute("rel", "noopener noreferrer nofollow");
  }
  return template.content;
}

/** Make `node` equal to `wanted` by changing only what differs, so that selection and focus stay. @param {Node} node @param {Node} wanted */
export function patch(node, wanted) {
  if (node.nodeName !== wanted.nodeName) {
    node.parentNode?.replaceChild(wanted, node);
  } else if (!(node instanceof Element) || !(wanted instanceof Element)) {
    if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
  } else if (!node.isEqualNode(wanted)) {
    for (const { name } of [...node.attributes]) if (!wanted.hasAttribute(name)) node.removeAttribute(name);
    for (const { name, value } of wanted.attributes) if (node.getAttribute(name) !== value) node.setAttribute(name, value);
    patchChildren(node, wanted);
  }
}

/** @param {Node} node @param {Node} wanted */
export function patchChildren(node, wanted) {
  const children = [...wanted.childNodes];
  for (let n = node.childNodes.length; n > children.length; n--) node.lastChild?.remove();
  children.forEach((child, n) => {
    const old = node.childNodes[n];
    if (old) patch(old, child);
    else node.appendChild(child);
  });
}

/** Children in this order, each moved only if it must. @param {Element} parent @param {Element[]} wanted */
export function arrange(parent, wanted) {
  const keep = new Set(wanted);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  wanted.forEach((child, n) => {
    if (parent.children[n] !== child) parent.insertBefore(child, parent.children[n] ?? null);
  });
}

/** A button with an icon alone needs a label. @param {string} name @param {string} label @param {(event: Event) => void} act @param {Attributes} [more] */
export function iconButton(name, label, act, more = {}) {
  return el("button", { type: "button", class: "icon small", "aria-label": label, title: label, onclick: act, ...more }, icon(name));
}

const SHAPES = /** @type {Record<string, string>} */ ({
  close: "M5 5l10 10M15 5L5 15",
  plus: "M10 4v12M4 10h12",
  up: "M10 13V4M6 8l4-4 4 4M4 16h12",
  keys: "M3 6h14v9H3zM6 9h.01M9 9h.01M12 9h.01M14.5 9h.01M7 12h6",
  menu: "M3 6h14M3 10h14M3 14h14",
  sliders: "M4 6h6M14 6h2M4 14h2M10 14h6M12 4v4M8 12v4",
  layers: "M10 3l7 4-7 4-7-4zM3 10.5l7 4 7-4M3 14l7 3.5 7-3.5",
  dots: "M5 10h.01M10 10h.01M15 10h.01",
  down: "M10 4v12M5 11l5 5 5-5",
  send: "M10 16V4M5 9l5-5 5 5",
  stop: "M6 6h8v8H6z",
  copy: "M8 8h8v8H8zM12 8V4H4v8h4",
  check: "M4 11l4 4 8-10",
  retry: "M16 10a6 6 0 1 1-2-4.5M16 3v4h-4",
  edit: "M4 16l1-4 8.5-8.5 3 3L8 15z",
  left: "M12 5l-5 5 5 5",
  right: "M8 5l5 5-5 5",
});

/** @type {Map<string, SVGElement>} */
const drawn = new Map();

/** @param {string} name @returns {SVGElement} */
export function icon(name) {
  const known = drawn.get(name) ?? draw(name);
  drawn.set(name, known);
  return /** @type {SVGElement} */ (known.cloneNode(true));
}

/** @param {string} name @returns {SVGElement} */
function draw(name) {
  const svg = vector("svg", { viewBox: "0 0 20 20", class: `i i-${name}`, "aria-hidden": "true" });
  svg.append(vector("path", { d: SHAPES[name] ?? "" }));
  return svg;
}

/** An SVG element. @param {string} name @param {Record<string, string | number>} [attributes] @returns {SVGElement} */
export function vector(name, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return /** @type {SVGElement} */ (made);
}
