# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""A weight times one row on CUDA, at the memory's speed, with the operations around it in the same kernel.

RMSNorm's scale is one number for the row, so it is found while the weight goes by and multiplied last.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from chatserve.model.early_launch import await_previous, launch_options, let_next_start


@dataclass(frozen=True, slots=True)
class MatvecTiling:
    """rows, columns: of the weight, multiplied at once.  warps: of a program.  stages: tiles on the way."""

    rows: int
    columns: int
    warps: int
    stages: int


def tiling(out: int, inner: int, *, gated: bool) -> MatvecTiling:
    """What reads a weight [out, inner] fastest; gated: two of them at once."""
    if gated or inner > 8192:
        return MatvecTiling(rows=1, columns=4096, warps=4, stages=1)
    if out <= 4096:
        return MatvecTiling(rows=2, columns=2048, warps=4, stages=1)
    return MatvecTiling(rows=4, columns=4096, warps=8, stages=1)


class TritonMatvecs:
    """See MatvecOps. Weights are dense.

    chosen: for every weight, instead of what reads it fastest.
    early: kernels start while the ones before them end, where the device can.
    """

    def __init__(self, chosen: MatvecTiling | None = None, *, early: bool = True) -> None:
        self._chosen = chosen
        self._early = early

    def norm_matvec(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        norm_weight: torch.Tensor,
        eps: float,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        output = torch.empty(1, len(weight), dtype=x.dtype, device=x.device)
        total = x if residual is None else torch.empty_like(x)
        self._launch(x, weight, bias, output, norm=(residual, norm_weight, eps, total))
        return output, total

    def matvec(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        output = torch.empty(1, len(weight), dtype=x.dtype, device=x.device)
        self._launch(x, weight, bias, output)
        return output

    def norm_gated_matvec(
        self, x: torch.Tensor, residual: torch.Tensor, norm_weight: torch.Tensor, eps: float, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        output = torch.empty(1, len(weight) // 2, dtype=x.dtype, device=x.device)
        total = torch.empty_like(x)
        self._launch(x, weight, None, output, norm=(residual, norm_weight, eps, total), gated=True)
        return output, total

    def _launch(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        output: torch.Tensor,
        *,
        norm: tuple[torch.Tensor | None, torch.Tensor, float, torch.Tensor] | None = None,
        gated: bool = False,
    ) -> None:
        """norm: residual, weight, epsilon, and where the sum of x and residual goes."""
        assert x.shape == (1, weight.shape[1])
        assert x.stride(1) == 1
        assert weight.is_contiguous()
        residual, norm_weight, eps, total = norm or (None, x, 0.0, x)
        one = self._chosen or tiling(output.shape[1], x.shape[1], gated=gated)
        matvec_kernel[(triton.cdiv(output.shape[1], one.rows),)](
            x,
            x if residual is None else residual,
            norm_weight,
            weight,
            x if bias is None else bias,
            output,
            total,
            eps,
            OUT=output.shape[1],
            IN=x.shape[1],
            NORM=norm is not None,
            ADD=residual is not None,
            BIAS=bias is not None,
            GATED=gated,
            ROWS=one.rows,
            COLUMNS=min(one.columns, triton.next_power_of_2(x.shape[1])),
            STAGES=one.stages,
            num_warps=one.warps,
            **launch_options(self._early, x.device),
        )


@triton.jit
def matvec_kernel(
    x,
    residual,
    norm_weight,
    weight,
    bias,
    output,
    total,
    eps,
    OUT: tl.constexpr,
    IN: tl.constexpr,
    NORM: tl.constexpr,
    ADD: tl.constexpr,
    BIAS: tl.constexpr,
    GATED: tl.constexpr,  # the weight has OUT rows of the gate, then OUT of what it opens
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STAGES: tl.constexpr,
    EARLY: tl.constexpr,
):
    """Some rows of the weight a program, which asks for the first of them before there is anything to multiply."""
    let_next_start(EARLY)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = tl.minimum(row, OUT - 1).to(tl.int64)[:, None] * IN  # rows too many repeat the last
    column = tl.arange(0, COLUMNS)
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    opened = tl.zeros([ROWS, COLUMNS], tl.float32)
    squares = tl.zeros([COLUMNS], tl.float32)
    w = _weight(weight + start, column, IN, COLUMNS)
    opens = w
    if GATED:
        opens = _weight(weight + start + OUT * IN, column, IN, COLUMNS)
    await_previous(EARLY)
    part = _part(x, residual, total, column, IN, ADD)
    if NORM:
        squares += part * part
        part *= tl.load(norm_weight + column, mask=column < IN, other=0.0).to(tl.float32)
    sums += w.to(tl.float32) * part[None, :]
    if GATED:
        opened += opens.to(tl.float32) * part[None, :]
    for begin in tl.range(COLUMNS, IN, COLUMNS, num_stages=STAGES):
        at = begin + column
        w = _weight(weight + start, at, IN, COLUMNS)
        if GATED:
            opens = _weight(weight + start + OUT * IN, at, IN, COLUMNS)
        part = _part(x, residual, total, at, IN, ADD)
        if NORM:
            squares += part * part
            part *= tl.load(norm_weight + at, mask=at < IN, other=0.0).to(tl.float32)
        sums += w.to(tl.float32) * part[None, :]
        if GATED:
            opened += opens.to(tl.float32) * part[None, :]
    product = tl.sum(sums, 1)
    scale = 1.0
    if NORM:
        scale = tl.rsqrt(tl.sum(squares, 0) / IN + eps)
        product *= scale
    if BIAS:
        product += tl.load(bias + row, mask=row < OUT, other=0.0).to(tl.float32)
    if GATED:
        product = product / (1.0 + tl.exp(-product)) * (tl.sum(opened, 1) * scale)
    tl.store(output + row, product.to(output.dtype.element_ty), mask=row < OUT)


@triton.jit
def _part(x, residual, total, at, IN: tl.constexpr, ADD: tl.constexpr):
    """Some of the row in float32, with what is added to it, rounded; the first program writes the sum."""
    there = at < IN
    part = tl.load(x + at, mask=there, other=0.0)
    if ADD:
        part = part.to(tl.float32) + tl.load(residual + at, mask=there, other=0.0).to(tl.float32)
        part = part.to(x.dtype.element_ty)
        if tl.program_id(0) == 0:
            tl.store(total + at, part, mask=there)
    return part.to(tl.float32)


@triton.jit
def _weight(start, at, IN: tl.constexpr, COLUMNS: tl.constexpr):
    """A tile of the weight, which is read once: it need not stay in the cache."""
    if IN % COLUMNS == 0:
        tile = tl.load(start + at[None, :], eviction_policy="evict_first")
    else:
        tile = tl.load(start + at[None, :], mask=(at < IN)[None, :], other=0.0, eviction_policy="evict_first")
    return tile
