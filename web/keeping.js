// What is done to a conversation as a whole: renamed, taken along, brought in, deleted.

import { renameDialog } from "./dialogs.js";
import { openMenu } from "./menu.js";
import { Removals } from "./removal.js";
import { go } from "./route.js";
import { text } from "./strings.js";
import { toast } from "./toast.js";
import { exportFile, importFile, NotJson } from "./transfer.js";
/** @import { Api } from "./api.js" */

/**
 * @typedef {object} Hear
 * @property {() => void} changed
 * @property {(error: unknown) => void} complain
 * @property {(id: string, title: string) => void} retitled
 * @property {() => void} imported
 * @property {() => string | null} shown the one that is open
 */

export class Keeping {
  /** @param {Api} api @param {Hear} hear */
  constructor(api, hear) {
    this.api = api;
    this.hear = hear;
    this.removals = new Removals(api, { changed: hear.changed, failed: hear.complain });
  }

  /** Whether it is as good as deleted. @param {string} id */
  removed(id) {
    return this.removals.has(id);
  }

  /** @param {HTMLElement} button @param {string} id @param {string} title */
  menu(button, id, title) {
    /** @param {Promise<unknown>} doing */
    const trying = (doing) => void doing.catch(this.hear.complain);
    openMenu(button, [
      { label: text.rename, act: () => renameDialog(title, (words) => trying(this.#rename(id, words))) },
      { label: text.exportMarkdown, act: () => trying(exportFile(this.api, id, "markdown")) },
      { label: text.exportJson, act: () => trying(exportFile(this.api, id, "json")) },
      { label: text.remove, danger: true, act: () => this.#remove(id, title) },
    ]);
  }

  /** @param {string} id @param {string} title */
  async #rename(id, title) {
    await this.api.post(`/page/conversations/${id}`, { title });
    this.hear.retitled(id, title);
    this.hear.changed();
  }

  /** @param {string} id @param {string} title */
  #remove(id, title) {
    const here = this.hear.shown() === id;
    this.removals.remove(id, title, () => here && go(id));
    if (here) go(null);
  }

  /** @param {HTMLElement} button @param {HTMLInputElement} field */
  imports(button, field) {
    button.addEventListener("click", () => field.click());
    field.addEventListener("change", () => {
      const file = field.files?.[0];
      field.value = "";
      if (file) void this.#import(file);
    });
  }

  /** @param {File} file */
  async #import(file) {
    try {
      const row = await importFile(this.api, file);
      toast(text.imported(row.title ?? text.untitled));
      this.hear.changed();
      go(row.id);
      this.hear.imported();
    } catch (error) {
      if (error instanceof NotJson) toast(error.message);
      else this.hear.complain(error);
    }
  }
}

/** What a conversation is called at first. @param {string} words */
export function titleOf(words) {
  const line = words.trim().split("\n")[0].replace(/\s+/g, " ");
  return line.length <= 60 ? line : `${line.slice(0, 59).replace(/\s\S*$/, "")}…`;
}
