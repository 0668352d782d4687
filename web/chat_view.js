// The messages of one conversation: its path of turns, and what is said where there are none.

import { arrange, el } from "./dom.js";
import { text } from "./strings.js";
import { say } from "./toast.js";
import { empty, path, versions } from "./tree.js";
import { errorCard, TurnView } from "./turn_view.js";
/** @import { Conversation } from "./conversation.js" */
/** @import { TurnActions } from "./turn_view.js" */
/** @import { ErrorView, TurnView as Turn } from "./types.js" */

const AT_ONCE = 8; // turns at the end that are there from the first moment
const SPARE = 4; // ms that filling one more takes, about
const soon = { timeRemaining: () => SPARE };
const whenIdle = window.requestIdleCallback ?? ((/** @type {(deadline: {timeRemaining(): number}) => void} */ act) => setTimeout(act, 1, soon));
const cancelIdle = window.cancelIdleCallback ?? clearTimeout;

export class ChatView {
  /** @type {Map<string, TurnView>} */
  #views = new Map();
  /** @type {Map<TurnView, () => void>} */
  #waiting = new Map();
  #idle = 0;
  #refusal = "";

  /**
   * @param {HTMLElement} root
   * @param {TurnActions & {start(words: string): void, reload(): void, resend(): void}} actions
   */
  constructor(root, actions) {
    this.root = root;
    this.actions = actions;
    this.turns = el("div", { class: "turns" });
    this.after = el("div", { class: "after" });
  }

  /** Nothing is open: an invitation. @param {ErrorView | null} [refused] */
  welcome(refused = null) {
    this.#views.clear();
    const starters = text.starters.map((words) =>
      el("li", {}, el("button", { type: "button", class: "starter", onclick: () => this.actions.start(words) }, words)));
    this.root.replaceChildren(
      el("div", { class: "welcome" },
        el("h2", {}, text.welcome), el("p", {}, text.welcomeMore), el("ul", { class: "starters" }, ...starters),
        refused ? errorCard(refused, [[text.tryAgain, this.actions.resend]]) : null),
    );
  }

  /** @param {Conversation} state */
  show(state) {
    if (state.gone) return this.#blank(text.notFound, [[text.toStart, () => (location.hash = "#/")]]);
    if (state.failure) return this.#blank(state.failure.message, [[text.tryAgain, this.actions.reload]]);
    const shown = path(state.turns, state.shown).filter((turn) => !empty(turn));
    if (!state.loaded) return this.#loading();
    if (this.turns.parentElement !== this.root) this.root.replaceChildren(this.turns, this.after);
    const busy = state.running !== null || state.turns.has("pending");
    this.#waiting.clear();
    const views = shown.map((turn, n) => this.#view(turn, state, busy, n >= shown.length - AT_ONCE));
    for (const [id, view] of this.#views) if (!views.includes(view) && !view.editing) this.#views.delete(id); // else it may be refused
    this.#fillWhenIdle();
    arrange(this.turns, views.map((view) => view.root));
    this.#after(state, shown.length === 0);
  }

  /** @param {Turn} turn @param {Conversation} state @param {boolean} busy @param {boolean} now */
  #view(turn, state, busy, now) {
    let view = this.#views.get(turn.id) ?? this.#promoted(turn);
    if (!view) view = new TurnView(turn, this.actions);
    this.#views.set(turn.id, view);
    const ids = versions(state.turns, turn).filter((other) => !empty(other)).map((other) => other.id);
    const update = () => view.update(turn, { at: ids.indexOf(turn.id), ids, busy });
    if (now || view.filled) update();
    else this.#waiting.set(view, update);
    return view;
  }

  /** What is far above is filled, from below, while the browser has nothing else to do. */
  #fillWhenIdle() {
    cancelIdle(this.#idle);
    if (this.#waiting.size === 0) return;
    this.#idle = whenIdle((deadline) => {
      for (const [view, update] of [...this.#waiting].reverse()) {
        if (deadline.timeRemaining() < SPARE) break;
        this.#waiting.delete(view);
        update();
      }
      this.#fillWhenIdle();
    });
  }

  /** A turn that had no id yet keeps its place. @param {Turn} turn */
  #promoted(turn) {
    const pending = this.#views.get("pending");
    if (!pending || turn.status !== "running") return undefined;
    this.#views.delete("pending");
    return pending;
  }

  /** @param {Conversation} state @param {boolean} empty */
  #after(state, empty) {
    const key = JSON.stringify([state.refused, empty, state.elsewhere]);
    if (key === this.#refusal) return;
    this.#refusal = key;
    this.after.replaceChildren();
    if (empty && !state.elsewhere) this.after.append(el("p", { class: "faint" }, text.emptyChat));
    if (state.elsewhere) this.after.append(el("p", { class: "waiting" }, el("span", { class: "pulse", "aria-hidden": "true" }), text.elsewhere));
    if (state.refused) {
      const running = state.refused.running ?? null;
      this.after.append(errorCard(state.refused, [
        [text.tryAgain, this.actions.resend],
        ...(running ? [/** @type {[string, () => void]} */ ([text.stopIt, () => this.actions.stop(running)])] : []),
      ]));
    }
  }

  #loading() {
    this.#views.clear();
    this.root.replaceChildren();
  }

  /** @param {string} words @param {[string, () => void][]} ways */
  #blank(words, ways) {
    this.#views.clear();
    const buttons = ways.map(([name, act]) => el("button", { type: "button", class: "button", onclick: act }, name));
    this.root.replaceChildren(el("div", { class: "welcome", role: "alert" }, el("p", { dir: "auto" }, words), el("p", { class: "row" }, ...buttons)));
  }

  /** @param {Turn} turn @param {number} from */
  text(turn, from) {
    const view = this.#views.get(turn.id);
    if (!view) return;
    view.turn = turn;
    view.text(from);
  }

  /** Another version is shown: say so, and keep the focus on what was pressed for it. @param {string} id @param {string | null} pressed */
  switched(id, pressed) {
    const view = this.#views.get(id);
    if (!view?.standing) return;
    say(text.saidBranch(view.standing.at + 1, view.standing.ids.length));
    if (pressed === null) return;
    const buttons = /** @type {HTMLButtonElement[]} */ ([...view.root.querySelectorAll(".switcher button")]).filter((button) => !button.disabled);
    (buttons.find((button) => button.getAttribute("aria-label") === pressed) ?? buttons[0])?.focus();
  }

  get last() {
    return [...this.#views.values()].find((view) => view.root === this.turns.lastElementChild);
  }

  /** Walk from turn to turn. @param {1 | -1} step */
  step(step) {
    const all = /** @type {HTMLElement[]} */ ([...this.turns.children]);
    const at = all.findIndex((turn) => turn.contains(document.activeElement));
    const next = at < 0 ? (step < 0 ? all.length - 1 : -1) : at + step;
    all[next]?.focus({ preventScroll: true });
    all[next]?.scrollIntoView({ block: "start" });
  }
}
