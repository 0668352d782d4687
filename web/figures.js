// Figures as they are read.

const digits = new Intl.NumberFormat("en");

/** @param {number} n */
export const number = (n) => digits.format(n);

/** @param {number} n bytes */
export function bytes(n) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let step = 0;
  for (; n >= 1000 && step < units.length - 1; step++) n /= 1024;
  return `${Number(step === 0 || n >= 100 ? Math.round(n) : n.toFixed(n >= 10 ? 1 : 2))} ${units[step]}`;
}

/** @param {number} ms */
export const seconds = (ms) => (ms < 995 ? `${Math.max(1, Math.round(ms))} ms` : `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`);
