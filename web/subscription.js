// Events that the server sends for as long as the page listens: read from a fetch, so that the key travels in a header.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
const SILENCE = 40_000; // the server says something every 15 s

/**
 * The JSON of each event.
 * @param {Response} response @param {() => void} heard something came, a ping perhaps
 */
export async function* events(response, heard) {
  const body = /** @type {ReadableStream<BufferSource>} */ (response.body);
  const reader = body.pipeThrough(/** @type {TransformStream<BufferSource, string>} */ (new TextDecoderStream())).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const parts = (rest + value).split(/\r?\n\r?\n/);
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const data = part.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart());
      if (data.length) yield JSON.parse(data.join("\n"));
    }
  }
}

/** @typedef {{state: "connecting" | "open" | "lost", wait: number}} Link wait: seconds until the next try */

/** One stream, opened again whenever it ends, until it is closed. It rests while nobody can see the page. */
export class Subscription {
  #closed = new AbortController();
  #now = () => {};

  /**
   * @param {(signal: AbortSignal) => Promise<Response>} open
   * @param {(event: any) => void} take
   * @param {(link: Link) => void} [tell]
   * @param {(error: unknown) => boolean} [fatal] true: this error will not go away
   */
  constructor(open, take, tell = () => {}, fatal = () => false) {
    this.open = open;
    this.take = take;
    this.tell = tell;
    this.fatal = fatal;
    const { signal } = this.#closed;
    addEventListener("online", () => this.#now(), { signal });
    document.addEventListener("visibilitychange", () => this.#now(), { signal });
    void this.#run();
  }

  close() {
    this.#closed.abort();
    this.#now();
  }

  async #run() {
    let wait = FIRST_WAIT;
    this.tell({ state: "connecting", wait: 0 });
    while (!this.#closed.signal.aborted) {
      try {
        await this.#listen(() => (wait = FIRST_WAIT));
      } catch (error) {
        if (!this.#closed.signal.aborted && this.fatal(error)) return this.close();
      }
      if (this.#closed.signal.aborted) return;
      if (document.hidden) {
        await this.#pause(null);
        continue;
      }
      this.tell({ state: "lost", wait: Math.ceil(wait / 1000) });
      await this.#pause(wait * (0.8 + 0.4 * Math.random()));
      wait = Math.min(wait * 2, LONGEST_WAIT);
    }
  }

  /** Until the stream ends, falls silent, or the page is hidden. @param {() => void} opened */
  async #listen(opened) {
    const one = new AbortController();
    const end = () => one.abort();
    let timer = setTimeout(end, SILENCE);
    const heard = () => {
      clearTimeout(timer);
      timer = setTimeout(end, SILENCE);
    };
    const hidden = () => document.hidden && end();
    this.#closed.signal.addEventListener("abort", end);
    document.addEventListener("visibilitychange", hidden);
    try {
      const response = await this.open(one.signal);
      opened();
      this.tell({ state: "open", wait: 0 });
      for await (const event of events(response, heard)) if (!one.signal.aborted) this.take(event);
    } finally {
      clearTimeout(timer);
      this.#closed.signal.removeEventListener("abort", end);
      document.removeEventListener("visibilitychange", hidden);
    }
  }

  /** @param {number | null} ms null: until something calls */
  #pause(ms) {
    return new Promise((resolve) => {
      const timer = ms === null ? 0 : setTimeout(resolve, ms);
      this.#now = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  }
}
