// Have the server bring a conversation's past back while its user still types.

/** @import { Api } from "./api.js" */

const FRESH = 60_000; // ms for which a warm-up is taken to hold

export class Warm {
  #running = new AbortController();
  #of = "";
  #at = 0;

  /** @param {Api} api */
  constructor(api) {
    this.api = api;
  }

  /** Once for each end of a conversation; once more costs nothing but a request. @param {string} conversation @param {string} leaf @param {string | null} shown */
  begin(conversation, leaf, shown) {
    const of = `${conversation} ${shown ?? leaf}`;
    if (of === this.#of && performance.now() - this.#at < FRESH) return;
    this.end();
    this.#of = of;
    this.#at = performance.now();
    this.#running = new AbortController();
    const path = shown === null || shown === leaf ? `/v1/conversations/${conversation}/warm` : `/v1/responses/${shown}/warm`;
    this.api.post(path, {}, this.#running.signal).catch(() => {}); // it is a help, and missed by nobody
  }

  /** Nobody wants it any more: the server stops computing. */
  end() {
    this.#running.abort();
    this.#of = "";
  }
}
