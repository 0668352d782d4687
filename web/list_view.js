// The list of conversations: most recently used first, searched on the server, more as it is scrolled.

import { shown } from "./api.js";
import { arrange, el, iconButton } from "./dom.js";
import { text } from "./strings.js";
/** @import { Api } from "./api.js" */
/** @import { Row } from "./types.js" */

/** @typedef {(button: HTMLElement, row: Row) => void} OpenRowMenu */

const PAGE = 40;
const TYPING = 180; // ms without a key before the search is made

export class ListView {
  /** @type {Row[]} */
  #rows = [];
  #more = false;
  #loaded = false;
  #query = "";
  #current = "";
  #asked = new AbortController();
  #timer = 0;
  /** @type {Map<string, HTMLElement>} */
  #made = new Map();

  /**
   * @param {HTMLElement} root @param {HTMLInputElement} search @param {Api} api
   * @param {{menu: OpenRowMenu, hidden(id: string): boolean}} actions
   */
  constructor(root, search, api, actions) {
    this.root = root;
    this.api = api;
    this.actions = actions;
    this.search = search;
    search.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void this.reload(), TYPING);
    });
    search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") (event.preventDefault(), this.#links()[0]?.focus());
      if (event.key === "Escape" && search.value) (event.stopPropagation(), event.preventDefault(), (search.value = ""), void this.reload());
    });
    root.addEventListener("keydown", (event) => this.#walk(event));
  }

  /** @param {string} id */
  current(id) {
    this.#current = id;
    this.render();
  }

  /** @param {string} id */
  row(id) {
    return this.#rows.find((row) => row.id === id);
  }

  /** From the top. */
  async reload() {
    const query = this.search.value.trim();
    const most = query === this.#query ? Math.max(PAGE, Math.min(this.#rows.length, 100)) : PAGE;
    await this.#ask(query, "", most, (rows) => rows);
  }

  /** What comes after what is there. */
  async #further() {
    await this.#ask(this.#query, this.#rows.at(-1)?.id ?? "", PAGE, (rows) => [...this.#rows, ...rows]);
  }

  /** @param {string} query @param {string} after @param {number} limit @param {(rows: Row[]) => Row[]} join */
  async #ask(query, after, limit, join) {
    this.#asked.abort();
    this.#asked = new AbortController();
    const { signal } = this.#asked;
    const words = new URLSearchParams({ limit: String(limit), ...(query && { query }), ...(after && { after }) });
    try {
      const page = await this.api.get(`/page/conversations?${words}`, signal);
      this.#query = query;
      this.#rows = join(page.data);
      this.#more = page.has_more;
      this.#loaded = true;
      this.render();
    } catch (error) {
      if (signal.aborted) return;
      this.root.replaceChildren(el("p", { class: "hint" }, text.listFailed), el("p", { class: "hint faint", dir: "auto" }, shown(error).message),
        el("button", { type: "button", class: "button small", onclick: () => void this.reload() }, text.tryAgain));
    }
  }

  render() {
    if (!this.#loaded) return;
    const rows = this.#rows.filter((row) => !this.actions.hidden(row.id));
    if (rows.length === 0) {
      const words = this.#query ? text.noHits(this.#query) : text.noChats;
      return this.root.replaceChildren(el("p", { class: "hint" }, words));
    }
    /** @type {[string, Row[]][]} */
    const groups = [];
    for (const row of rows) {
      const name = this.#query ? "" : when(row.used_at);
      if (groups.at(-1)?.[0] !== name) groups.push([name, []]);
      groups.at(-1)?.[1].push(row);
    }
    const parts = groups.map(([name, members]) => {
      const section = this.#part(`group ${name}`, () => el("section", { "aria-label": name || null }, name ? el("h2", {}, name) : null, el("ul")));
      arrange(/** @type {Element} */ (section.lastElementChild), members.map((row) => this.#row(row)));
      return section;
    });
    if (this.#more) parts.push(this.#part("more", () => el("button", { type: "button", class: "quiet", onclick: () => void this.#further() }, text.moreChats)));
    arrange(this.root, parts);
  }

  /** @param {string} key @param {() => HTMLElement} make */
  #part(key, make) {
    const part = this.#made.get(key) ?? make();
    this.#made.set(key, part);
    return part;
  }

  /** @param {Row} row */
  #row(row) {
    const title = row.title || text.untitled;
    const key = JSON.stringify([row.id, title, row.excerpt, row.running]);
    const made = this.#part(key, () => {
      const name = el("span", { class: "name", dir: "auto" }, title);
      const link = el("a", { href: `#/c/${row.id}` }, name, row.excerpt ? el("small", { dir: "auto" }, row.excerpt) : null,
        row.running ? el("span", { class: "pulse", title: text.running, role: "img", "aria-label": text.running }) : null);
      const menu = iconButton("dots", text.rowMenu(title), (event) => this.actions.menu(/** @type {HTMLElement} */ (event.currentTarget), row), { "aria-haspopup": "menu" });
      return el("li", {}, link, menu);
    });
    const link = made.firstElementChild;
    if (row.id === this.#current) link?.setAttribute("aria-current", "page");
    else link?.removeAttribute("aria-current");
    return made;
  }

  /** @returns {HTMLElement[]} */
  #links() {
    return [...this.root.querySelectorAll("a")];
  }

  /** @param {KeyboardEvent} event */
  #walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const links = this.#links();
    const at = links.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    if (!step || event.altKey || at < 0) return;
    event.preventDefault();
    (links[at + step] ?? (step < 0 ? this.search : links[at])).focus();
  }
}

/** @param {number} at seconds */
function when(at) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const days = (midnight - at * 1000) / 86_400_000;
  return days < 0 ? text.today : days < 1 ? text.yesterday : days < 6 ? text.thisWeek : text.earlier;
}
