# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Tokens from logits on CUDA without a sort, and without the host: the next step reads them where they are written.

A draw from softmax(logits / T) is the best of logits / T - log(q), q exponential: each token has its own q, from a
generator that counts. So a row's token depends on its logits, temperature and key alone, never on its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from chatserve.model.early_launch import await_previous, launch_options, let_next_start

TILE = 2048
"""Tokens a program looks at."""

PHILOX_ROUNDS = tl.constexpr(7)
"""The fewest with which the generator passes every test of its authors."""


@dataclass(frozen=True, slots=True)
class DrawWorkspace:
    """The best of each tile of each row: scores, logits float32 and tokens int32, [most_rows, tiles] each.

    early: kernels start while the ones before them end, where the device can.
    """

    scores: torch.Tensor
    logits: torch.Tensor
    tokens: torch.Tensor
    early: bool = True

    @staticmethod
    def of(most_rows: int, vocab: int, device: torch.device, *, early: bool = True) -> DrawWorkspace:
        shape = (most_rows, triton.cdiv(vocab, TILE))
        return DrawWorkspace(
            scores=torch.empty(shape, dtype=torch.float32, device=device),
            logits=torch.empty(shape, dtype=torch.float32, device=device),
            tokens=torch.empty(shape, dtype=torch.int32, device=device),
            early=early,
        )


def draw_tokens(
    logits: torch.Tensor,
    temperatures: torch.Tensor,
    keys: torch.Tensor,
    slots: torch.Tensor,
    last_tokens: torch.Tensor,
    workspace: DrawWorkspace,
) -> torch.Tensor:
    """Returns a token a row, int64 [n]; -1 where the best logit is no finite number.

    logits: [n, vocab].  temperatures: float32 [n]; 0: the best token, the first of equals.
    keys: int64 [n], one a draw.  slots: int64 [n], where in last_tokens (int64) each token goes
    too, a broken row's as 0, so that the step after it can look it up.
    """
    rows, vocab = logits.shape
    tiles = triton.cdiv(vocab, TILE)
    assert logits.stride(1) == 1
    assert rows <= len(workspace.scores)
    assert tiles == workspace.scores.shape[1]
    drawn = torch.empty(rows, dtype=torch.int64, device=logits.device)
    options = launch_options(workspace.early, logits.device)
    best_of_tile_kernel[(tiles, rows)](
        logits,
        temperatures,
        keys,
        workspace.scores,
        workspace.logits,
        workspace.tokens,
        logits.stride(0),
        VOCAB=vocab,
        TILES=tiles,
        TILE=TILE,
        num_warps=4,
        **options,
    )
    best_of_row_kernel[(rows,)](
        workspace.scores,
        workspace.logits,
        workspace.tokens,
        slots,
        drawn,
        last_tokens,
        TILES=tiles,
        TILES_TILE=triton.next_power_of_2(tiles),
        num_warps=1,
        **options,
    )
    return drawn


@triton.jit
def best_of_tile_kernel(
    logits,
    temperatures,
    keys,
    best_scores,
    best_logits,
    best_tokens,
    row_stride,
    VOCAB: tl.constexpr,
    TILES: tl.constexpr,
    TILE: tl.constexpr,
    EARLY: tl.constexpr,
):
    """The token of the best score in one tile of one row, and the best logit there: infinite if any is not a number."""
    let_next_start(EARLY)
    await_previous(EARLY)
    tile = tl.program_id(0)
    row = tl.program_id(1)
    token = tile * TILE + tl.arange(0, TILE)
    logit = tl.load(logits + row.to(tl.int64) * row_stride + token, mask=token < VOCAB, other=float("-inf"))
    logit = logit.to(tl.float32)
    temperature = tl.load(temperatures + row)
    known = tl.where(logit == logit, logit, float("inf"))
    highest = tl.max(known, 0)
    # Of exp(logits / T) / q, relative to the tile's best logit, only the largest's logarithm is wanted.
    level = tl.where((highest < float("inf")) & (highest > float("-inf")), highest, 0.0)
    score = known
    if temperature > 0.0:
        chance = tl.exp2((known - level) / temperature * 1.4426950408889634)
        score = chance / _exponential(tl.load(keys + row), tile, TILE)
    best, at = tl.max(score, 0, return_indices=True)
    if temperature > 0.0:
        best = level / temperature + tl.log(best)
    place = row * TILES + tile
    tl.store(best_scores + place, best)
    tl.store(best_tokens + place, tile * TILE + at)
    tl.store(best_logits + place, highest)


@triton.jit
def _exponential(key, tile, TILE: tl.constexpr):
    """An exponential of each token of a tile. One count of the generator gives those of four neighbours."""
    a, b, c, d = tl.rand4x(key, tile * (TILE // 4) + tl.arange(0, TILE // 4), n_rounds=PHILOX_ROUNDS)
    uniform = tl.interleave(tl.interleave(a, c), tl.interleave(b, d))
    uniform = tl.maximum(uniform, 2.3283064365386963e-10)  # 2 ** -32: its logarithm is wanted
    # The smallest decide who wins, and 1 - u would round them away.
    return tl.where(uniform < 1e-4, uniform + uniform * uniform / 2, -tl.log(1.0 - uniform))


@triton.jit
def best_of_row_kernel(
    best_scores,
    best_logits,
    best_tokens,
    slots,
    drawn,
    last_tokens,
    TILES: tl.constexpr,
    TILES_TILE: tl.constexpr,
    EARLY: tl.constexpr,
):
    let_next_start(EARLY)
    await_previous(EARLY)
    row = tl.program_id(0)
    tile = tl.arange(0, TILES_TILE)
    place = row * TILES + tile
    there = tile < TILES
    score = tl.load(best_scores + place, mask=there, other=float("-inf"))
    best = tl.max(tl.load(best_logits + place, mask=there, other=float("-inf")), 0)
    finite = (best < float("inf")) & (best > float("-inf"))
    token = tl.load(best_tokens + row * TILES + tl.argmax(score, 0)).to(tl.int64)
    tl.store(drawn + row, tl.where(finite, token, -1))
    tl.store(last_tokens + tl.load(slots + row), tl.where(finite, token, 0))
