// A conversation as a file, and back.

import { el } from "./dom.js";
import { text } from "./strings.js";
/** @import { Api } from "./api.js" */
/** @import { Row } from "./types.js" */

/** Fetched with the key in its header, then given to the browser. @param {Api} api @param {string} id @param {"json" | "markdown"} format */
export async function exportFile(api, id, format) {
  const response = await api.stream(`/page/conversations/${id}/export?format=${format}`);
  const named = response.headers.get("content-disposition")?.match(/filename\*=UTF-8''([^;]+)/i)?.[1];
  const link = /** @type {HTMLAnchorElement} */ (
    el("a", { download: named ? decodeURIComponent(named) : `${id}.${format === "json" ? "json" : "md"}`, hidden: true })
  );
  link.href = URL.createObjectURL(await response.blob());
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @param {Api} api @param {File} file @returns {Promise<Row>} */
export async function importFile(api, file) {
  let content;
  try {
    content = JSON.parse(await file.text());
  } catch {
    throw new NotJson();
  }
  return api.post("/page/import", content);
}

export class NotJson extends Error {
  constructor() {
    super(text.importNotJson);
  }
}
