// What the browser keeps between visits. A browser that refuses to keep anything is no reason to stop.

const PREFIX = "chatserve.";

/** @param {"local" | "session"} which @returns {Storage | null} */
function place(which) {
  try {
    return which === "local" ? localStorage : sessionStorage;
  } catch {
    return null; // forbidden by the browser's settings
  }
}

/** @param {string} name @param {"local" | "session"} [which] @returns {string | null} */
export function kept(name, which = "local") {
  return place(which)?.getItem(PREFIX + name) ?? null;
}

/** null forgets it. @param {string} name @param {string | null} value @param {"local" | "session"} [which] */
export function keep(name, value, which = "local") {
  try {
    if (value === null || value === "") place(which)?.removeItem(PREFIX + name);
    else place(which)?.setItem(PREFIX + name, value);
  } catch {
    // full: the newest is not kept
  }
}

/** @param {string} name @returns {any} what was kept as JSON, or null */
export function keptJson(name) {
  try {
    return JSON.parse(kept(name) ?? "null");
  } catch {
    return null; // written by something else
  }
}
