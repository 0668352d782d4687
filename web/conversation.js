// The open conversation: its tree, the turn under way, and what its user does to it. No elements here.

import { Problem, shown } from "./api.js";
import { Store } from "./store.js";
import { text } from "./strings.js";
import { Subscription } from "./subscription.js";
import { asked, blank, empty, goesOn, lost, newestEnd } from "./tree.js";
import { Unsaved } from "./unsaved.js";
/** @import { Api } from "./api.js" */
/** @import { Link } from "./subscription.js" */
/** @import { ErrorView, Sampling, Tree, TurnView } from "./types.js" */

/**
 * @typedef {object} Conversation
 * @property {string} id
 * @property {string | null} title
 * @property {Map<string, TurnView>} turns
 * @property {string | null} leaf where the server goes on
 * @property {string | null} shown the last turn on the path that is seen
 * @property {string | null} running
 * @property {boolean} elsewhere one runs that cannot be followed: an API client's
 * @property {boolean} stopping
 * @property {boolean} loaded
 * @property {boolean} gone deleted, or never there
 * @property {ErrorView | null} failure of loading
 * @property {ErrorView | null} refused of the last thing that was asked for
 * @property {Link} link
 */

const PENDING = "pending";

export class OpenConversation {
  /** @type {Subscription | null} */
  #subscription = null;
  #closed = new AbortController();
  #fetched = 0;
  #loading = 0;
  /** The last question once more, after it was refused. @type {() => Promise<boolean>} */
  repeat = async () => false;

  /**
   * @param {Api} api @param {string} id @param {string | null} shown
   * @param {{text(turn: TurnView, from: number): void, ended(turn: TurnView): void, changed(): void}} hear text: blocks from there on are
   *   other ones
   */
  constructor(api, id, shown, hear) {
    this.api = api;
    this.hear = hear;
    this.unsaved = new Unsaved(id);
    this.store = new Store(/** @type {Conversation} */ ({
      id, title: null, turns: new Map(), leaf: null, shown, running: null, elsewhere: false, stopping: false,
      loaded: false, gone: false, failure: null, refused: null, link: { state: "connecting", wait: 0 },
    }));
  }

  get state() {
    return this.store.state;
  }

  /** @param {boolean} fresh it was made just now: there is nothing to load */
  open(fresh) {
    if (fresh) this.store.set({ loaded: true });
    else void this.reload();
    this.#subscription = new Subscription(
      (signal) => this.api.stream(`/page/conversations/${this.state.id}/events`, signal),
      (event) => this.#take(event),
      (link) => this.store.set({ link }),
      (error) => error instanceof Problem && error.status === 404,
    );
  }

  close() {
    this.#closed.abort();
    this.#subscription?.close();
  }

  /** The tree as the server has it; what only this page knows stays. */
  async reload() {
    const number = ++this.#fetched;
    this.#loading++;
    try {
      const tree = await this.api.get(`/page/conversations/${this.state.id}`, this.#closed.signal);
      if (number === this.#fetched) this.#put(tree);
    } catch (error) {
      if (this.#closed.signal.aborted) return;
      const failure = shown(error);
      if (failure.status === 404) this.store.set({ gone: true, loaded: true });
      else if (!this.state.loaded) this.store.set({ failure }); // else what is there is better than nothing
    } finally {
      this.#loading--;
    }
  }

  /** @param {Tree} tree */
  #put(tree) {
    const before = this.state.turns;
    const turns = new Map(tree.turns.filter((turn) => turn.parent !== null || !empty(turn)).map((turn) => [turn.id, turn]));
    for (const turn of before.values()) {
      const runs = turn.status === "running" && (turn.id === tree.running || turn.id === this.state.running);
      const mine = turn.status === "pending" || runs || turn.error;
      const saved = turns.get(turn.id);
      if (mine && !saved) turns.set(turn.id, turn);
      else if (turn.status === "running" && !saved) turns.set(turn.id, { ...turn, status: "failed", error: { message: text.unheard } });
      else if (saved?.status === "failed" && turn.error) saved.error = turn.error;
    }
    const { leaf, shown: at } = this.state;
    const follows = at === null || !turns.has(at) || at === leaf;
    const running = tree.running === "elsewhere" ? this.state.running : tree.running; // events say more of that one
    if (tree.running !== "elsewhere") this.unsaved.settle(turns, running, text.unheard);
    this.store.set({
      turns, title: tree.title, running, loaded: true, failure: null,
      leaf: running !== null && turns.has(running) ? running : tree.leaf, // as when it began
      shown: follows && !turns.has(PENDING) ? this.#end(turns, tree) : at,
    });
  }

  /** @param {Map<string, TurnView>} turns @param {Tree} tree */
  #end(turns, tree) {
    if (tree.running !== null && turns.has(tree.running)) return tree.running;
    const last = [...turns.values()].at(-1);
    const leaf = tree.leaf !== null && turns.has(tree.leaf) ? tree.leaf : null;
    if (last?.error && last.parent === leaf) return last.id;
    return leaf ?? last?.id ?? null;
  }

  /** @param {any} event */
  #take(event) {
    const { turns } = this.state;
    if (event.type === "state") this.#connected(event);
    else if (event.type === "turn") this.#begin(event.turn);
    else if (event.type === "text") this.#grow(event);
    else if (event.type === "end") this.#finish(event.turn);
    else if (event.type === "error") {
      const turn = turns.get(event.id);
      if (turn) turns.set(event.id, { ...turn, status: "failed", error: event.error });
      this.store.set({ running: null, stopping: false });
      this.hear.changed();
      void this.reload();
    } else if (event.type === "deleted") this.store.set({ gone: true });
    else if (event.type === "renamed") this.store.set({ title: event.title });
    else if (event.type === "changed") void this.reload();
  }

  /** @param {{running: string | null, elsewhere: boolean}} event */
  #connected({ running, elsewhere }) {
    const { loaded, failure, refused, running: before } = this.state;
    this.store.set({ running, elsewhere, ...(refused?.stop ? { refused: null } : {}) });
    if (loaded || failure || before !== running) void this.reload(); // what came while nobody listened
  }

  /** @param {TurnView} turn */
  #begin(turn) {
    const { turns, shown: at, leaf } = this.state;
    const old = turns.get(turn.id);
    if (old && old.status !== "running" && !old.error) return; // it has ended, and this is late
    const follows = at === PENDING || at === leaf || at === null || at === turn.id;
    turns.delete(PENDING);
    turns.set(turn.id, { ...blank(turn.id, turn.parent), ...turn, status: "running", blocks: old?.blocks ?? [] });
    this.store.set({ running: turn.id, elsewhere: false, leaf: turn.id, shown: follows ? turn.id : at });
    this.#outrun();
  }

  /** What is on its way was read before something that has been seen here: it would be forgotten again. */
  #outrun() {
    if (this.#loading) void this.reload();
  }

  /** @param {{id: string, from: number, blocks: string[], thinking_html: string | null, tokens: number}} event */
  #grow({ id, from, blocks, thinking_html, tokens }) {
    const turn = this.state.turns.get(id);
    if (turn?.status !== "running") return;
    turn.blocks = [...turn.blocks.slice(0, from), ...blocks];
    turn.thinking_html = thinking_html;
    turn.tokens = tokens;
    this.hear.text(turn, from);
  }

  /** @param {TurnView} turn */
  #finish(turn) {
    const { turns, running } = this.state;
    turns.set(turn.id, turn);
    this.unsaved.forget(turn.id);
    const over = running === turn.id || running === null ? { running: null, stopping: false, elsewhere: false } : {};
    this.store.set({ leaf: turn.id, ...over }); // whoever ended last is where the server goes on
    this.hear.ended(turn);
    this.#outrun();
  }

  /**
   * Ask, going on from `parent`. The turn is seen at once; it is kept by the server from when it has answered. What failed
   * and is asked again now is seen no more.
   * @param {string} input @param {string | null} parent @param {{instructions: string | null, settings: Sampling}} how
   * @returns {Promise<boolean>} whether it was taken
   */
  async ask(input, parent, how) {
    const { turns, id, shown: before } = this.state;
    this.repeat = () => this.ask(input, parent, how);
    if (turns.has(PENDING)) return false;
    const known = goesOn(turns, parent);
    const failed = [...turns.values()].filter((turn) => lost(turn) && goesOn(turns, turn.parent) === known && asked(turn) === input);
    turns.set(PENDING, { ...blank(PENDING, known), messages: [{ role: "user", text: input, html: null }] });
    this.store.set({ shown: PENDING, refused: null, loaded: true });
    const body = { input, parent: known, settings: how.settings, ...(how.instructions ? { instructions: how.instructions } : {}) };
    try {
      const taken = await this.api.post(`/page/conversations/${id}/turns`, body);
      const now = this.state.turns; // others, where the tree was loaded meanwhile
      const pending = now.get(PENDING);
      now.delete(PENDING);
      for (const each of failed) now.delete(each.id);
      for (const each of failed) this.unsaved.forget(each.id);
      this.unsaved.keep({ id: taken.id, parent: known, input });
      if (pending && !now.has(taken.id)) now.set(taken.id, { ...pending, id: taken.id, status: "running" });
      const ended = now.get(taken.id)?.status !== "running";
      this.store.set({ shown: taken.id, leaf: taken.id, ...(ended ? {} : { running: taken.id }) });
      this.#outrun();
      this.hear.changed();
      return true;
    } catch (error) {
      this.state.turns.delete(PENDING);
      const back = before !== null && this.state.turns.has(before) ? before : this.state.leaf;
      this.store.set({ shown: this.state.shown === PENDING ? back : this.state.shown, refused: shown(error) });
      return false;
    }
  }

  /** The same question once more, beside the answer there is. @param {TurnView} turn @param {{instructions: string | null, settings: Sampling}} how */
  again(turn, how) {
    return this.ask(asked(turn), turn.parent, how);
  }

  /** @param {string | null} [running] another turn than the one that is known to run */
  async stop(running = this.state.running) {
    if (running === null || this.state.stopping) return;
    this.store.set({ stopping: true });
    try {
      await this.api.post(`/page/turns/${running}/stop`);
      if (this.state.running === running) await this.reload(); // the event may be on its way, or lost
      this.store.set({ refused: null });
    } catch (error) {
      this.repeat = async () => (await this.stop(running), this.state.refused === null);
      this.store.set({ refused: { ...shown(error), stop: true } });
      if (this.state.running === running) void this.reload();
    } finally {
      this.store.set({ stopping: false });
    }
  }

  /** Show the newest end of what goes on from this turn. @param {string} id */
  show(id) {
    this.store.set({ shown: newestEnd(this.state.turns, id) });
  }

  forgiven() {
    this.store.set({ refused: null });
  }
}
