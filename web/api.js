// Asking the server: JSON both ways, the key in a header, one kind of error.

import { text } from "./strings.js";
/** @import { ErrorView } from "./types.js" */

/** What a request was answered with instead of an answer. status 0: the server could not be reached. */
export class Problem extends Error {
  /** @param {number} status @param {ErrorView} error */
  constructor(status, error) {
    super(error.message);
    this.status = status;
    this.code = error.code ?? null;
    this.view = { ...error, status };
  }
}

/** @typedef {{key(): string, ask(refused: boolean): Promise<void>}} Keys where the key comes from when one is asked for */

export class Api {
  #keys;

  /** @param {Keys} keys */
  constructor(keys) {
    this.#keys = keys;
  }

  /** @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
  get(path, signal) {
    return this.#json("GET", path, { signal });
  }

  /** @param {string} path @param {unknown} [body] @param {AbortSignal} [signal] @returns {Promise<any>} */
  post(path, body = {}, signal) {
    return this.#json("POST", path, { signal, body: JSON.stringify(body) });
  }

  /** @param {string} path @param {boolean} [leaving] the page may be gone before the answer @returns {Promise<any>} */
  remove(path, leaving = false) {
    return this.#json("DELETE", path, { keepalive: leaving });
  }

  /** Headers have come, and were good. @param {string} path @param {AbortSignal} [signal] @returns {Promise<Response>} */
  stream(path, signal) {
    return this.#ask("GET", path, { signal });
  }

  /** @param {string} method @param {string} path @param {RequestInit} more */
  async #json(method, path, more) {
    const response = await this.#ask(method, path, more);
    return response.status === 204 ? null : response.json();
  }

  /** @param {string} method @param {string} path @param {RequestInit} more @returns {Promise<Response>} */
  async #ask(method, path, more) {
    for (;;) {
      const key = this.#keys.key();
      const headers = new Headers();
      if (more.body) headers.set("content-type", "application/json");
      if (key) headers.set("authorization", `Bearer ${key}`);
      // Past the browser's cache: there a request waits for another one of the same address, for up to 20 s.
      const response = await fetch(path, { ...more, method, headers, credentials: "omit", cache: "no-store" }).catch((error) => {
        if (error.name === "AbortError") throw error;
        throw new Problem(0, { message: text.offline });
      });
      if (response.ok) return response;
      const problem = await problemOf(response);
      if (response.status !== 401 || more.keepalive) throw problem;
      if (key === this.#keys.key()) await this.#keys.ask(key !== "");
    }
  }
}

/** @param {Response} response */
async function problemOf(response) {
  const body = await response.json().catch(() => null);
  const error = body?.error ?? {};
  return new Problem(response.status, { ...error, message: String(error.message ?? `${response.status} ${response.statusText}`) });
}

/** @param {unknown} error @returns {ErrorView} as it can be shown; throws what nobody foresaw */
export function shown(error) {
  if (error instanceof Problem) return error.view;
  throw error;
}

/** What to do about an error. @param {ErrorView} error @returns {string | null} */
export function advice(error) {
  return text.help[error.code ?? ""] ?? text.help[String(error.status)] ?? null;
}
