// State that can be watched. Watchers run after the change, together, once.

/** @template {object} S */
export class Store {
  /** @type {Set<(state: S) => void>} */
  #watchers = new Set();
  #queued = false;

  /** @param {S} state */
  constructor(state) {
    this.state = state;
  }

  /** @param {Partial<S>} [change] */
  set(change = {}) {
    Object.assign(this.state, change);
    if (this.#queued) return;
    this.#queued = true;
    queueMicrotask(() => {
      this.#queued = false;
      for (const watch of this.#watchers) watch(this.state);
    });
  }

  /** @param {(state: S) => void} watch @returns {() => void} ends it */
  watch(watch) {
    this.#watchers.add(watch);
    return () => this.#watchers.delete(watch);
  }
}
