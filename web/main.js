// The page from its parts.

import { Api, Problem, shown } from "./api.js";
import { copiesCode } from "./answer.js";
import { bubbles } from "./bubble.js";
import { ChatView } from "./chat_view.js";
import { Composer } from "./composer.js";
import { OpenConversation } from "./conversation.js";
import { listenForShortcuts, shortcutsDialog } from "./dialogs.js";
import { byId } from "./dom.js";
import { Follow } from "./follow.js";
import { Frame } from "./frame.js";
import { fill } from "./frame_words.js";
import { showHead, showLink } from "./head.js";
import { Keeping, titleOf } from "./keeping.js";
import { Keys } from "./key.js";
import { ListView } from "./list_view.js";
import { MemoryPanel } from "./memory_panel.js";
import { reasons } from "./reuse.js";
import { go, rename, route } from "./route.js";
import { howOf, keepHow, settingsDialog } from "./settings.js";
import { text } from "./strings.js";
import { say, toast } from "./toast.js";
import { path } from "./tree.js";
import { Warm } from "./warm.js";
/** @import { How } from "./settings.js" */
/** @import { ServerSettings, TurnView } from "./types.js" */

const LIST_AGES = 30_000;

class Page {
  keys = new Keys();
  api = new Api(this.keys);
  warm = new Warm(this.api);
  others = new BroadcastChannel("chatserve");
  /** @type {ServerSettings} */
  server = { needs_key: false };
  /** @type {OpenConversation | null} */
  open = null;

  constructor() {
    this.keeping = new Keeping(this.api, {
      changed: () => this.changed(),
      complain: (error) => this.complain(error),
      retitled: (id, title) => this.open?.state.id === id && this.open.store.set({ title }),
      shown: () => this.open?.state.id ?? null,
      imported: () => this.frame.settle(),
    });
    this.list = new ListView(byId("list"), /** @type {HTMLInputElement} */ (byId("search")), this.api, {
      menu: (button, row) => this.keeping.menu(button, row.id, row.title ?? text.untitled),
      hidden: (id) => this.keeping.removed(id),
    });
    this.chat = new ChatView(byId("chat"), {
      again: (turn) => this.asking((open, how) => open.again(turn, how)),
      edit: (turn, words) => this.asking((open, how) => open.ask(words, turn.parent, how)),
      show: (id) => this.branch(id),
      stop: (running) => void this.open?.stop(running),
      complain: (words) => toast(words),
      start: (words) => ((this.composer.words = words), void this.composer.send()),
      reload: () => void this.open?.reload(),
      resend: () => (this.composer.words ? void this.composer.send() : void this.asking((open) => open.repeat())),
    });
    this.composer = new Composer(byId("composer"), {
      send: (words) => this.send(words),
      stop: () => void this.open?.stop(),
      typing: () => this.typing(),
      editLast: () => this.chat.last?.edit(),
    });
    this.follow = new Follow(byId("scroller"), byId("chat"), (following) => (byId("to-bottom").hidden = following));
    this.memory = new MemoryPanel(byId("memory"), this.api, {
      close: () => this.frame.memory(false),
      open: (conversation) => (go(conversation), this.frame.settle()),
    });
    this.frame = new Frame((open) => (open ? this.memory.open(this.open?.state.id ?? "") : this.memory.close()));
    this.listen();
  }

  listen() {
    addEventListener("hashchange", () => this.arrive());
    byId("to-bottom").addEventListener("click", () => (this.follow.end(), this.refocus()));
    byId("settings-open").addEventListener("click", () => this.settings());
    byId("more").addEventListener("click", () => this.open && this.keeping.menu(byId("more"), this.open.state.id, this.open.state.title ?? text.untitled));
    byId("help").addEventListener("click", shortcutsDialog);
    byId("new").addEventListener("click", () => (this.frame.settle(), this.composer.field.focus()));
    byId("list").addEventListener("click", (event) => event.target instanceof Element && event.target.closest("a") && this.frame.settle());
    document.querySelector(".skip")?.addEventListener("click", (event) => (event.preventDefault(), this.composer.field.focus()));
    this.keeping.imports(byId("import"), /** @type {HTMLInputElement} */ (byId("import-file")));
    this.others.addEventListener("message", () => void this.list.reload());
    document.addEventListener("visibilitychange", () => document.hidden || void this.list.reload());
    setInterval(() => document.hidden || void this.list.reload(), LIST_AGES);
    copiesCode(byId("chat"), (words) => toast(words));
    bubbles(byId("chat"), "data-why", (id) => {
      const turn = this.open?.state.turns.get(id);
      return turn ? reasons(turn) : [];
    });
    listenForShortcuts({
      write: () => this.composer.field.focus(),
      step: (by) => this.chat.step(by),
      stop: () => this.frame.escape() || (this.open?.state.running ? (void this.open.stop(), true) : false),
      fresh: () => (go(null), this.composer.field.focus()),
      search: () => (this.frame.showSide(), byId("search").focus()),
      memory: () => this.frame.toggleMemory(),
      settings: () => this.settings(),
    });
  }

  async begin() {
    this.arrive();
    await this.ask();
    await this.list.reload();
    if (this.server.model === undefined) await this.ask(); // the key has been asked for meanwhile
  }

  /** What is served here. */
  async ask() {
    try {
      this.server = await this.api.get("/page/settings");
      if (this.server.limits) this.composer.limit(this.server.limits.input_characters);
      this.head();
    } catch (error) {
      if (!(error instanceof Problem)) throw error; // else the list says it
    }
  }

  /** To where the address says. */
  arrive() {
    const { conversation, turn } = route();
    if (this.open && conversation === this.open.state.id) {
      if (turn) this.branch(turn);
      return;
    }
    this.leave();
    if (conversation) this.enter(conversation, turn, false);
    else this.chat.welcome();
    this.composer.belongsTo(conversation);
    this.head();
    this.list.current(conversation ?? "");
    if (this.frame.memoryOpen) this.memory.open(conversation ?? "");
    if (matchMedia("(hover: hover)").matches && !document.activeElement?.closest("nav, dialog")) this.composer.field.focus();
  }

  leave() {
    this.open?.close();
    this.open = null;
    this.warm.end();
    this.composer.set(false, false);
    byId("link").hidden = true;
  }

  /** @param {string} id @param {string | null} turn @param {boolean} fresh */
  enter(id, turn, fresh) {
    const open = new OpenConversation(this.api, id, turn, {
      text: (at, from) => this.chat.text(at, from),
      ended: (at) => this.ended(at),
      changed: () => this.changed(),
    });
    this.open = open;
    let announced = /** @type {string | null} */ (null);
    open.store.watch((state) => {
      if (this.open !== open) return;
      this.chat.show(state);
      this.composer.set(state.running !== null, state.stopping || state.elsewhere);
      showLink(state.link);
      this.head();
      if (state.running && state.running !== announced) say(text.saidAnswering);
      announced = state.running ?? announced; // a stale word that nothing runs may come between
    });
    open.open(fresh);
    this.chat.show(open.state);
    this.follow.end();
    return open;
  }

  head() {
    const state = this.open?.state;
    showHead(state, state && this.list.row(state.id)?.title, this.server);
  }

  /** @param {string} words @returns {Promise<boolean>} */
  async send(words) {
    if (this.open && !this.open.state.loaded) return false; // it is not known yet what this would go on from
    if (!this.open) {
      const how = howOf(null);
      try {
        const row = await this.api.post("/page/conversations", { title: titleOf(words) });
        keepHow(row.id, how);
        rename(row.id);
        this.enter(row.id, null, true).store.set({ title: row.title });
        this.composer.belongsTo(row.id);
        this.list.current(row.id);
        if (this.frame.memoryOpen) this.memory.open(row.id);
      } catch (error) {
        this.chat.welcome(shown(error));
        return false;
      }
    }
    return this.asking((open, how) => open.ask(words, open.state.shown, how));
  }

  /** @param {(open: OpenConversation, how: How) => Promise<boolean>} ask @returns {Promise<boolean>} */
  async asking(ask) {
    const { open } = this;
    if (!open) return false;
    const last = path(open.state.turns, open.state.shown).at(-1);
    this.follow.end();
    const taken = await ask(open, howOf(open.state.id, last));
    this.refocus();
    if (taken) {
      this.warm.end();
      if (route().turn) rename(open.state.id);
    }
    return taken;
  }

  /** What was pressed has gone: on to where one writes. Not where that would open a keyboard on the screen. */
  refocus() {
    const nowhere = document.activeElement === document.body || document.activeElement === null;
    if (nowhere && matchMedia("(hover: hover)").matches) this.composer.field.focus();
  }

  /** @param {string} turn */
  branch(turn) {
    const { open } = this;
    if (!open) return;
    const pressed = document.activeElement?.closest(".switcher") ? document.activeElement.getAttribute("aria-label") : null;
    this.follow.rest();
    open.show(turn);
    queueMicrotask(() => this.chat.switched(turn, pressed)); // once it is shown
    this.warm.end();
    const { shown: end, leaf, id } = open.state;
    rename(id, end === leaf ? null : end);
  }

  typing() {
    const state = this.open?.state;
    if (!state?.loaded || state.leaf === null || state.turns.size === 0 || state.running !== null) return;
    this.warm.begin(state.id, state.leaf, state.shown);
  }

  /** @param {TurnView} turn */
  ended(turn) {
    const words = (turn.answer ?? "").split(/\s+/).filter(Boolean).length;
    say(turn.status === "cancelled" ? text.saidStopped : text.saidDone(words));
    this.changed();
  }

  /** The list is another one, here and in this browser's other tabs. */
  changed() {
    this.list.render();
    void this.list.reload();
    this.others.postMessage("changed");
  }

  settings() {
    if (document.querySelector("dialog")) return;
    const state = this.open?.state;
    const last = state && path(state.turns, state.shown).at(-1);
    settingsDialog(state?.id ?? null, howOf(state?.id ?? null, last), this.server, {
      forgetKey: this.server.needs_key ? () => (this.keys.forget(), location.reload()) : null,
    });
  }

  /** @param {unknown} error */
  complain(error) {
    toast(shown(error).message);
  }
}

fill(document);
void new Page().begin();
