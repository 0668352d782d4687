# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""A weight times the few rows of a decode step on CUDA, at the speed at which the weight can be read.

A large product's kernel has too few programs for that, or a second kernel to add what they computed. Here programs
share each tile of the result by columns of the weight, and the last of them adds all parts, always in one order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch.nn.functional import linear

from chatserve.model.early_launch import await_previous, bring_to_cache, launch_options, let_next_start

LINE = tl.constexpr(64)
"""Numbers of half precision in a cache line."""

MOST_ROWS = 32
"""Beyond, torch's products read the weights as fast."""

MOST_TILES = 4096
"""Of a result, each with a count of arrivals."""


@dataclass(frozen=True, slots=True)
class ProductTiling:
    """out, inner: rows and columns of the weight, multiplied at once.  warps, stages: of a program.

    programs: about how many share a product; each result tile has at least one.
    """

    out: int
    inner: int
    warps: int
    stages: int
    programs: int

    def splits(self, out: int, inner: int) -> int:
        """Programs a tile of a weight [out, inner], each with a few steps to make."""
        tiles, steps = -(-out // self.out), -(-inner // self.inner)
        return max(1, min(self.programs // tiles, steps // 4))


Choice = Callable[[int, int, int, bool], ProductTiling | None]
"""(rows, rows of the weight's result, columns of the weight, gated) -> tiling; None: torch's product is faster."""

LARGEST = 100_000_000
"""Numbers of a weight, beyond which torch's product reads it as fast."""


def product_tiling(rows: int, out: int, inner: int, gated: bool) -> ProductTiling | None:
    """What was measured to be fastest."""
    if not 2 <= rows <= MOST_ROWS or out * inner > LARGEST or inner % 8:
        return None
    if gated:
        if rows <= 16:
            return ProductTiling(out=64, inner=128, warps=4, stages=3, programs=1)
        return ProductTiling(out=64, inner=64, warps=4, stages=4, programs=1)
    return ProductTiling(out=64, inner=128, warps=4, stages=4, programs=264)


class TritonProducts:
    """`linear` and `gated_linear` of Ops. Weights are dense. Products must follow one another on one stream.

    early: kernels start while the ones before them end, where the device can.
    """

    def __init__(self, device: torch.device, *, choose: Choice = product_tiling, early: bool = True) -> None:
        self._choose = choose
        self._arrivals = torch.zeros(MOST_TILES, dtype=torch.int32, device=device)
        self._options = launch_options(early, device)

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """x @ weight.T + bias."""
        one = self._chosen(x, len(weight), gated=False)
        if one is None:
            return linear(x, weight, bias)
        return self._product(one, x, weight, bias, len(weight), gated=False)

    def gated_linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor | None:
        """silu(gate) * up of x @ weight.T + bias, or None where it is better computed one after the other."""
        one = self._chosen(x, len(weight) // 2, gated=True)
        if one is None:
            return None
        return self._product(one, x, weight, bias, len(weight) // 2, gated=True)

    def _chosen(self, x: torch.Tensor, out: int, *, gated: bool) -> ProductTiling | None:
        half = x.dtype in (torch.float16, torch.bfloat16)
        return self._choose(x.shape[0], out, x.shape[1], gated) if half else None

    def _product(
        self,
        one: ProductTiling,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        out: int,
        *,
        gated: bool,
    ) -> torch.Tensor:
        rows, inner = x.shape
        assert x.stride(1) == 1
        assert weight.is_contiguous()
        splits = 1 if gated else one.splits(out, inner)
        tiles = triton.cdiv(out, one.out)
        assert tiles <= MOST_TILES, f"{tiles} tiles of a product, of at most {MOST_TILES}"
        rows_tile = max(16, triton.next_power_of_2(rows))
        output = torch.empty(rows, out, dtype=x.dtype, device=x.device)
        parts = output
        if splits > 1:
            parts = torch.empty(tiles * splits, one.out, rows_tile, dtype=torch.float32, device=x.device)
        product_kernel[(tiles, splits)](
            x,
            weight,
            weight if bias is None else bias,
            output,
            parts,
            self._arrivals,
            rows,
            x.stride(0),
            OUT=out,
            IN=inner,
            ROWS_TILE=rows_tile,
            OUT_TILE=one.out,
            IN_TILE=one.inner,
            SPLITS=splits,
            STAGES=one.stages,
            AHEAD=triton.next_power_of_2(one.inner * one.stages // LINE.value),
            GATED=gated,
            BIAS=bias is not None,
            num_warps=one.warps,
            **self._options,
        )
        return output


@triton.jit(do_not_specialize=["rows"])
def product_kernel(
    x,
    weight,
    bias,
    output,
    parts,  # float32 [tiles, SPLITS, OUT_TILE, ROWS_TILE]
    arrivals,  # int32 [tiles]: zero between launches
    rows,
    x_row,
    OUT: tl.constexpr,
    IN: tl.constexpr,
    ROWS_TILE: tl.constexpr,  # at least 16, for the tensor cores
    OUT_TILE: tl.constexpr,
    IN_TILE: tl.constexpr,
    SPLITS: tl.constexpr,
    STAGES: tl.constexpr,
    AHEAD: tl.constexpr,  # cache lines of each of the weight's rows
    GATED: tl.constexpr,  # the weight has OUT rows of the gate, then OUT of what it opens
    BIAS: tl.constexpr,
    EARLY: tl.constexpr,
):
    """A tile of the result, or a part of its sum; transposed, for the weight's rows are the tensor cores' long side."""
    let_next_start(EARLY)
    tile = tl.program_id(0)
    split = tl.program_id(1)
    STEPS: tl.constexpr = (IN + IN_TILE - 1) // IN_TILE
    first = split * STEPS // SPLITS
    end = (split + 1) * STEPS // SPLITS
    column = tl.arange(0, IN_TILE)
    row = tl.arange(0, ROWS_TILE)
    local = tl.arange(0, OUT_TILE)
    out = tile * OUT_TILE + local
    within = tl.minimum(local, OUT - 1 - tile * OUT_TILE)  # rows too many repeat the last
    here = weight + (tile * OUT_TILE).to(tl.int64) * IN
    w = here + (within[:, None] * IN + column[None, :])
    if EARLY:
        # The first tiles come from memory while there is nothing yet to multiply.
        line = tl.minimum(first * IN_TILE + tl.arange(0, AHEAD) * LINE, IN - 1)
        lines = here + (within[:, None] * IN + line[None, :])
        bring_to_cache(lines)
        if GATED:
            bring_to_cache(lines + OUT * IN)
    await_previous(EARLY)
    xs = x + (row[:, None] * x_row + column[None, :])
    sums = tl.zeros([OUT_TILE, ROWS_TILE], tl.float32)
    opened = tl.zeros([OUT_TILE, ROWS_TILE], tl.float32)
    for step in tl.range(first, end, num_stages=STAGES):
        at = step * IN_TILE
        some = (row < rows)[:, None]
        if IN % IN_TILE == 0:
            part = tl.trans(tl.load(xs + at, mask=some, other=0.0))
            sums = tl.dot(tl.load(w + at), part, sums)
            if GATED:
                opened = tl.dot(tl.load(w + (at + OUT * IN)), part, opened)
        else:
            there = (at + column < IN)[None, :]
            part = tl.trans(tl.load(xs + at, mask=some & there, other=0.0))
            sums = tl.dot(tl.load(w + at, mask=there, other=0.0), part, sums)
            if GATED:
                opened = tl.dot(tl.load(w + (at + OUT * IN), mask=there, other=0.0), part, opened)

    last = True
    if SPLITS > 1:
        place = (tile * SPLITS * OUT_TILE + local[:, None]) * ROWS_TILE + row[None, :]
        tl.store(parts + split * OUT_TILE * ROWS_TILE + place, sums)
        tl.debug_barrier()  # all threads' stores come before the one thread's arrival, which releases them
        last = tl.atomic_add(arrivals + tile, 1, sem="acq_rel") == SPLITS - 1
        if last:
            tl.store(arrivals + tile, 0)
            sums = tl.zeros([OUT_TILE, ROWS_TILE], tl.float32)
            for each in tl.static_range(SPLITS):
                # Others wrote them: not through L1.
                sums += tl.load(parts + each * OUT_TILE * ROWS_TILE + place, cache_modifier=".cg")
    if last:
        if BIAS:
            sums += tl.load(bias + out, mask=out < OUT, other=0.0).to(tl.float32)[:, None]
        if GATED:
            if BIAS:
                opened += tl.load(bias + OUT + out, mask=out < OUT, other=0.0).to(tl.float32)[:, None]
            sums = sums / (1.0 + tl.exp(-sums)) * opened
        result = output + row[None, :] * OUT + out[:, None]
        tl.store(result, sums.to(output.dtype.element_ty), mask=(row < rows)[None, :] & (out < OUT)[:, None])
