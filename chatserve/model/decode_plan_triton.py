# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Cutting a decode step's sequences into pieces of about equal work, on the device, once a step for all its layers.

A captured step is replayed with other lengths, so the cut may depend on the lengths only here, and the number of
pieces is bounded by numbers the host knows.
"""

from __future__ import annotations

import triton
import triton.language as tl

from chatserve.model.early_launch import await_previous, let_next_start

ITEM_WORDS = 8
"""int32 words a work item takes, so that one 32-byte read brings it: row, slot, first, end, piece, pieces; and, of
another matter, in the n-th item the number of the item that begins the n-th sequence.
"""


@triton.jit(do_not_specialize=["rows_here", "tile", "programs", "waves", "most_items"])
def plan_kernel(
    lengths,
    slots,
    items,
    count,
    rows_here,  # the step's sequences
    tile,  # tokens
    programs,  # that run at once on the whole device
    waves,  # rounds of programs a ragged batch is cut for
    most_items,
    ROWS_TILE: tl.constexpr,  # rows_here up to a power of two
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,  # query heads of a KV head
    WINDOW: tl.constexpr,  # 0: none
    CANDIDATES: tl.constexpr,  # most_items up to a power of two
    WORDS: tl.constexpr,
    PIECES_TILE: tl.constexpr,  # pieces of a row written at once
    APART: tl.constexpr,  # pieces are joined by many programs
    EARLY: tl.constexpr,
):
    """Writes the work items, longest pieces first, and how many they are."""
    let_next_start(EARLY)
    await_previous(EARLY)
    rows = tl.arange(0, ROWS_TILE)
    seen = _seen(tl.load(lengths + rows, mask=rows < rows_here, other=0).to(tl.int32), WINDOW)
    total, longest = tl.sum(seen, 0), tl.max(seen, 0)
    even = _even_pieces(longest, rows_here, tile, programs, most_items, KV_HEADS, CANDIDATES)
    uniform = longest.to(tl.float32) * rows_here <= 1.3 * total.to(tl.float32)
    fair = tl.cdiv(total * KV_HEADS, programs * waves)
    fair = tl.maximum(tl.cdiv(fair, tile), 1) * tile

    each, _ = _cut(seen, uniform, even, fair, tile, GROUP, APART)
    order = tl.sort(tl.where(rows < rows_here, (each // tile) * ROWS_TILE + rows, -1), descending=True)
    row = order % ROWS_TILE
    here = rows < rows_here  # in sorted order too: what stands for no row comes last
    length = tl.load(lengths + row, mask=here, other=0).to(tl.int32)
    slot = tl.load(slots + row, mask=here, other=0).to(tl.int32)
    seen = _seen(length, WINDOW)
    each, pieces = _cut(seen, uniform, even, fair, tile, GROUP, APART)
    pieces = tl.where(here, pieces, 0)
    tl.store(count, tl.sum(pieces, 0))

    start = tl.cumsum(pieces, 0) - pieces
    tl.store(items + rows * WORDS + 6, start, mask=here)
    start = start[:, None]
    row, slot, each, length = row[:, None], slot[:, None], each[:, None], length[:, None]
    skipped = length - seen[:, None]
    for begin in range(0, tl.max(pieces, 0), PIECES_TILE):
        piece = (begin + tl.arange(0, PIECES_TILE))[None, :]
        mine = piece < pieces[:, None]
        first = skipped + piece * each
        item = items + (start + piece) * WORDS
        tl.store(item, row + 0 * piece, mask=mine)
        tl.store(item + 1, slot + 0 * piece, mask=mine)
        tl.store(item + 2, first, mask=mine)
        tl.store(item + 3, tl.minimum(first + each, length), mask=mine)
        tl.store(item + 4, piece + 0 * row, mask=mine)
        tl.store(item + 5, pieces[:, None] + 0 * piece, mask=mine)


@triton.jit
def _seen(length, WINDOW: tl.constexpr):
    """How many of a sequence's last tokens the new one attends to."""
    seen = length
    if WINDOW > 0:
        seen = tl.minimum(length, WINDOW)
    return seen


@triton.jit
def _even_pieces(
    longest,
    rows_here,
    tile,
    programs,
    most_items,
    KV_HEADS: tl.constexpr,
    CANDIDATES: tl.constexpr,
):
    """Into how many pieces to cut each row of a batch of about equal rows: the fewest tiles until the last round ends.

    A piece costs about a tile more than its tokens: its start, and its share of the joining.
    """
    pieces = 1 + tl.arange(0, CANDIDATES)
    rounds = tl.cdiv(pieces * rows_here * KV_HEADS, programs)
    tiles = tl.cdiv(tl.cdiv(longest, pieces), tile) + 1
    cost = tl.where((pieces * rows_here <= most_items) | (pieces == 1), rounds * tiles, 2147483647)
    return 1 + tl.argmin(cost, 0)


@triton.jit
def _cut(seen, uniform, even, fair, tile, GROUP: tl.constexpr, APART: tl.constexpr):
    """The tokens of a row's pieces (whole tiles) and their number.

    Where one program joins all pieces of a row and KV head, their number is kept near where reading one piece's
    partial result takes as long as the tokens that one more piece would save the others.
    """
    wanted = tl.where(uniform, even, (seen + fair // 2) // fair)
    if not APART:
        wanted = tl.minimum(wanted, tl.sqrt(3.0 * seen.to(tl.float32) / GROUP).to(tl.int32))
    wanted = tl.maximum(wanted, 1)
    each = tl.maximum(tl.cdiv(tl.cdiv(seen, wanted), tile), 1) * tile
    return each, tl.maximum(tl.cdiv(seen, each), 1)
