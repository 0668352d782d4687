# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Decode attention over slots: one program reads one piece of one sequence, for the query rows of one KV head.

It reads memory at its full speed because a slot is contiguous, and no token at or past a sequence's length. The program
that finishes a sequence last joins what the others left, so a layer takes one launch; where that would be too much for
one program, a second kernel joins with many.
"""

from __future__ import annotations

import triton
import triton.language as tl

from chatserve.model.early_launch import await_previous, let_next_start


@triton.jit
def attend_kernel(
    query,
    keys,
    values,
    output,
    partials,  # float32 [items, kv_heads, group, head_dim]: each piece's own softmax over V
    weights,  # float32 [items, kv_heads, group]: log2 of the sum of exponentials behind it
    arrivals,  # int32 [rows, kv_heads]: zero between launches
    items,
    count,
    scale,
    query_row,
    query_head,
    slot_stride,
    token_stride,
    head_stride,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_TILE: tl.constexpr,  # at least 16, for the tensor cores
    GROUP_JOIN: tl.constexpr,  # GROUP up to a power of two
    DIM: tl.constexpr,
    DIM_TILE: tl.constexpr,
    TILE: tl.constexpr,
    SOFTCAP: tl.constexpr,  # 0: none
    WORDS: tl.constexpr,
    APART: tl.constexpr,  # pieces are joined by join_kernel
    JOIN: tl.constexpr,  # else so many at once, by the last program
    EARLY: tl.constexpr,
):
    await_previous(EARLY)
    head = tl.program_id(0)
    number = tl.program_id(1)
    item = items + number * WORDS
    row = tl.load(item)
    slot = tl.load(item + 1).to(tl.int64)
    first = tl.load(item + 2)
    end = tl.load(item + 3)
    piece = tl.load(item + 4)
    pieces = tl.load(item + 5)
    if number >= tl.load(count):
        return

    group = tl.arange(0, GROUP_TILE)
    dim = tl.arange(0, DIM_TILE)
    wanted = (group < GROUP)[:, None] & (dim < DIM)[None, :]
    heads = head * GROUP + group
    q = tl.load(
        query + row.to(tl.int64) * query_row + heads[:, None] * query_head + dim[None, :], mask=wanted, other=0.0
    )
    start = slot * slot_stride + first.to(tl.int64) * token_stride + head * head_stride
    attended, weight = _attend(
        q, keys + start, values + start, first, end, scale, token_stride, GROUP_TILE, DIM, DIM_TILE, TILE, SOFTCAP
    )
    result = output + row.to(tl.int64) * (KV_HEADS * GROUP * DIM)
    if pieces == 1:
        tl.store(result + heads[:, None] * DIM + dim[None, :], attended.to(output.dtype.element_ty), mask=wanted)
    else:
        place = (number * KV_HEADS + head) * GROUP + group
        tl.store(partials + place[:, None] * DIM + dim[None, :], attended, mask=wanted)
        tl.store(weights + place, weight, mask=group < GROUP)
        if not APART:
            tl.debug_barrier()  # all threads' stores come before the one thread's arrival, which releases them
            arrival = arrivals + row * KV_HEADS + head
            if tl.atomic_add(arrival, 1, sem="acq_rel") == pieces - 1:
                tl.store(arrival, 0)
                begin = (number - piece) * KV_HEADS + head
                joined = _join(partials, weights, begin, pieces, KV_HEADS, GROUP, GROUP_JOIN, DIM, DIM_TILE, JOIN)
                group_join = tl.arange(0, GROUP_JOIN)
                tl.store(
                    result + (head * GROUP + group_join)[:, None] * DIM + dim[None, :],
                    joined.to(output.dtype.element_ty),
                    mask=(group_join < GROUP)[:, None] & (dim < DIM)[None, :],
                )


@triton.jit
def _attend(
    q,
    keys,
    values,
    first,
    end,
    scale,
    token_stride,
    GROUP_TILE: tl.constexpr,
    DIM: tl.constexpr,
    DIM_TILE: tl.constexpr,
    TILE: tl.constexpr,
    SOFTCAP: tl.constexpr,
):
    """Softmax over the tokens first ... end - 1 of one slot and head, and log2 of its sum (-inf: no token).

    keys, values: where those of the first token are.
    """
    dim = tl.arange(0, DIM_TILE)
    token = tl.arange(0, TILE)
    inner = token[:, None] * token_stride + dim[None, :]
    highest = tl.full([GROUP_TILE], float("-inf"), tl.float32)
    total = tl.zeros([GROUP_TILE], tl.float32)
    sums = tl.zeros([GROUP_TILE, DIM_TILE], tl.float32)
    for begin in range(first, end, TILE):
        inside = token < end - begin
        there = inside[:, None] & (dim < DIM)[None, :]
        k = tl.load(keys + inner, mask=there, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        if SOFTCAP > 0.0:
            scores = SOFTCAP * (1.0 - 2.0 / (1.0 + tl.exp2(scores * (2.0 * 1.4426950408889634 / SOFTCAP))))
        scores = tl.where(inside[None, :], scores * 1.4426950408889634, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        shares = tl.exp2(scores - higher[:, None])
        fade = tl.exp2(highest - higher)
        v = tl.load(values + inner, mask=there, other=0.0)
        sums = tl.dot(shares.to(v.dtype), v, sums * fade[:, None], input_precision="ieee")
        total = total * fade + tl.sum(shares, 1)
        highest = higher
        keys += TILE * token_stride
        values += TILE * token_stride
    some = total > 0.0
    attended = sums / tl.where(some, total, 1.0)[:, None]
    return attended, tl.where(some, highest + tl.log2(total), float("-inf"))


@triton.jit
def _join(
    partials,
    weights,
    begin,
    pieces,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_JOIN: tl.constexpr,
    DIM: tl.constexpr,
    DIM_TILE: tl.constexpr,
    JOIN: tl.constexpr,
):
    """All pieces of one sequence and KV head, each by its share of the softmax. Others wrote them: not through L1."""
    piece = tl.arange(0, JOIN)
    group = tl.arange(0, GROUP_JOIN)
    dim = tl.arange(0, DIM_TILE)
    highest = tl.full([GROUP_JOIN], float("-inf"), tl.float32)
    total = tl.zeros([GROUP_JOIN], tl.float32)
    sums = tl.zeros([GROUP_JOIN, DIM_TILE], tl.float32)
    for from_piece in range(0, pieces, JOIN):
        there = (from_piece + piece < pieces)[:, None] & (group < GROUP)[None, :]
        place = (begin + (from_piece + piece) * KV_HEADS)[:, None] * GROUP + group[None, :]
        weight = tl.load(weights + place, mask=there, other=float("-inf"), cache_modifier=".cg")
        partial = tl.load(
            partials + place[:, :, None] * DIM + dim[None, None, :],
            mask=there[:, :, None] & (dim < DIM)[None, None, :],
            other=0.0,
            cache_modifier=".cg",
        )
        higher = tl.maximum(highest, tl.max(weight, 0))
        level = tl.where(higher == float("-inf"), 0.0, higher)  # the group's padding has no weight at all
        fade = tl.exp2(highest - level)
        share = tl.exp2(weight - level[None, :])
        sums = sums * fade[:, None] + tl.sum(partial * share[:, :, None], 0)
        total = total * fade + tl.sum(share, 0)
        highest = higher
    return sums / tl.where(total > 0.0, total, 1.0)[:, None]


@triton.jit
def join_kernel(
    output,
    partials,
    weights,
    items,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    DIM: tl.constexpr,
    DIM_TILE: tl.constexpr,
    PIECES_TILE: tl.constexpr,  # joined at once
    WORDS: tl.constexpr,
    EARLY: tl.constexpr,
):
    """All pieces of one sequence and query head."""
    let_next_start(EARLY)
    await_previous(EARLY)
    number = tl.load(items + tl.program_id(0) * WORDS + 6)
    row = tl.load(items + number * WORDS)
    pieces = tl.load(items + number * WORDS + 5)
    if pieces == 1:
        return
    head = tl.program_id(1)
    dim = tl.arange(0, DIM_TILE)
    tile = tl.arange(0, PIECES_TILE)
    highest = tl.max(tl.full([PIECES_TILE], float("-inf"), tl.float32), 0)
    totals = tl.zeros([PIECES_TILE], tl.float32)
    sums = tl.zeros([PIECES_TILE, DIM_TILE], tl.float32)
    for begin in range(0, pieces, PIECES_TILE):
        there = begin + tile < pieces
        place = ((number + begin + tile) * KV_HEADS + head // GROUP) * GROUP + head % GROUP
        weight = tl.load(weights + place, mask=there, other=float("-inf"))
        partial = tl.load(
            partials + place[:, None] * DIM + dim[None, :], mask=there[:, None] & (dim < DIM)[None, :], other=0.0
        )
        higher = tl.maximum(highest, tl.max(weight, 0))
        fade = tl.exp2(highest - higher)
        share = tl.exp2(weight - higher)
        sums = sums * fade + partial * share[:, None]
        totals = totals * fade + share
        highest = higher
    joined = tl.sum(sums, 0) / tl.sum(totals, 0)
    place = output + row.to(tl.int64) * (KV_HEADS * GROUP * DIM) + head * DIM + dim
    tl.store(place, joined.to(output.dtype.element_ty), mask=dim < DIM)
