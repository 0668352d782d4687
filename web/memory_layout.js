// Where each piece of the rTree lies in its picture: along the line by tokens, one row for every end.

/** @import { Piece } from "./types.js" */

/** @typedef {{piece: Piece, x: number, y: number, width: number, height: number, leaf: boolean}} Box x, width: tokens; y, height: rows */

/** @param {Piece[]} pieces parents first @returns {{boxes: Box[], rows: number, tokens: number}} */
export function layout(pieces) {
  /** @type {Map<number, Box & {children: number[]}>} */
  const boxes = new Map();
  /** @type {number[]} */
  const roots = [];
  for (const piece of pieces) {
    boxes.set(piece.id, { piece, x: piece.start, y: 0, width: Math.max(1, piece.end - piece.start), height: 1, leaf: true, children: [] });
    const parent = piece.parent === null ? undefined : boxes.get(piece.parent);
    if (parent) {
      parent.children.push(piece.id);
      parent.leaf = false;
    } else roots.push(piece.id);
  }
  const rows = place(boxes, roots);
  const tokens = Math.max(1, ...[...boxes.values()].map(({ x, width }) => x + width));
  return { boxes: [...boxes.values()], rows, tokens };
}

/** Rows from top to bottom, without recursion: a tree may be as deep as a conversation is long. @param {Map<number, Box & {children: number[]}>} boxes @param {number[]} roots */
function place(boxes, roots) {
  let row = 0;
  const stack = roots.toReversed().map((id) => ({ id, done: false }));
  while (stack.length) {
    const { id, done } = /** @type {{id: number, done: boolean}} */ (stack.pop());
    const box = /** @type {Box & {children: number[]}} */ (boxes.get(id));
    if (done) box.height = row - box.y;
    else if (box.leaf) {
      box.y = row;
      row += 1;
    } else {
      box.y = row;
      stack.push({ id, done: true }, ...box.children.toReversed().map((child) => ({ id: child, done: false })));
    }
  }
  return row;
}

/** This conversation's piece and those before it. @param {Piece[]} pieces @param {string} conversation @returns {Set<number>} */
export function pathOf(pieces, conversation) {
  const byId = new Map(pieces.map((piece) => [piece.id, piece]));
  /** @type {Set<number>} */
  const found = new Set();
  for (const piece of pieces) {
    if (piece.conversation !== conversation) continue;
    for (let at = /** @type {Piece | undefined} */ (piece); at && !found.has(at.id); at = byId.get(at.parent ?? -1)) found.add(at.id);
  }
  return found;
}
