# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""A decoder's operations on CUDA, one kernel each: what lies between two products is read and written once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch.nn.functional import linear

from chatserve.model.early_launch import await_previous, launch_options, let_next_start
from chatserve.model.product_triton import TritonProducts
from chatserve.model.step import StepRows

HEADS_TILE = 16
"""Heads that a program rotates: with 16 bytes a thread, few enough programs that starting them is not the time."""

GATED_TILE = 1024


class TritonOps:
    """See Ops. Rows are dense; the arena's views may have any strides, but for a dense last dimension.

    products: of few rows; None: torch's.
    early: kernels start while the ones before them end, where the device can.
    """

    def __init__(self, products: TritonProducts | None = None, *, early: bool = True) -> None:
        self._products = products
        self._early = early

    def norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        normed = torch.empty_like(x)
        _norm(x, None, weight, eps, normed, normed, self._early)
        return normed

    def add_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        normed, total = torch.empty_like(x), torch.empty_like(x)
        _norm(x, residual, weight, eps, normed, total, self._early)
        return normed, total

    def rope_write(
        self,
        qkv: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        rows: StepRows,
        keys: torch.Tensor,
        values: torch.Tensor,
        heads: int,
        q_norm: torch.Tensor | None,
        k_norm: torch.Tensor | None,
        eps: float,
    ) -> torch.Tensor:
        kv_heads, head_dim = keys.shape[2:]
        assert keys.stride() == values.stride()
        assert keys.stride(3) == 1
        assert qkv.stride(1) == 1
        query = torch.empty(len(qkv), heads, head_dim, dtype=qkv.dtype, device=qkv.device)
        rope_write_kernel[(len(qkv), triton.cdiv(heads + 2 * kv_heads, HEADS_TILE))](
            qkv,
            query,
            keys,
            values,
            cos,
            sin,
            qkv if q_norm is None else q_norm,
            qkv if k_norm is None else k_norm,
            rows.positions,
            rows.slots,
            eps,
            qkv.stride(0),
            *keys.stride()[:3],
            HEADS=heads,
            KV_HEADS=kv_heads,
            DIM=head_dim,
            HALF_TILE=triton.next_power_of_2(head_dim // 2),
            Q_NORM=q_norm is not None,
            K_NORM=k_norm is not None,
            HEADS_TILE=HEADS_TILE,
            num_warps=4,
            **launch_options(self._early, qkv.device),
        )
        return query

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        if self._products is None:
            return linear(x, weight, bias)
        return self._products.linear(x, weight, bias)

    def gated_linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        product = None if self._products is None else self._products.gated_linear(x, weight, bias)
        return self.gated(linear(x, weight, bias)) if product is None else product

    def gated(self, gate_up: torch.Tensor) -> torch.Tensor:
        rows, inter = gate_up.shape[0], gate_up.shape[1] // 2
        assert gate_up.is_contiguous()
        output = torch.empty(rows, inter, dtype=gate_up.dtype, device=gate_up.device)
        tile = min(GATED_TILE, triton.next_power_of_2(inter))
        gated_kernel[(triton.cdiv(inter, tile), rows)](
            gate_up, output, INTER=inter, TILE=tile, num_warps=4, **launch_options(self._early, gate_up.device)
        )
        return output


def _norm(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor,
    eps: float,
    normed: torch.Tensor,
    total: torch.Tensor,
    early: bool,
) -> None:
    rows, hidden = x.shape
    assert x.is_contiguous()
    assert residual is None or residual.is_contiguous()
    tile = triton.next_power_of_2(hidden)
    norm_kernel[(rows,)](
        x,
        x if residual is None else residual,
        weight,
        normed,
        total,
        eps,
        HIDDEN=hidden,
        TILE=tile,
        ADD=residual is not None,
        num_warps=min(16, max(1, tile // 512)),
        **launch_options(early, x.device),
    )


@triton.jit
def norm_kernel(
    x,
    residual,
    weight,
    normed,
    total,
    eps,
    HIDDEN: tl.constexpr,
    TILE: tl.constexpr,
    ADD: tl.constexpr,
    EARLY: tl.constexpr,
):
    """One row a program."""
    let_next_start(EARLY)
    start = tl.program_id(0).to(tl.int64) * HIDDEN
    at = tl.arange(0, TILE)
    there = at < HIDDEN
    scale = tl.load(weight + at, mask=there, other=0.0)
    await_previous(EARLY)
    row = tl.load(x + start + at, mask=there, other=0.0)
    if ADD:
        other = tl.load(residual + start + at, mask=there, other=0.0)
        row = (row.to(tl.float32) + other.to(tl.float32)).to(row.dtype)
        tl.store(total + start + at, row, mask=there)
    tl.store(normed + start + at, _normed(row, scale, eps, HIDDEN, 0), mask=there)


@triton.jit
def _normed(x, weight, eps, SIZE: tl.constexpr, AXIS: tl.constexpr):
    """RMSNorm along an axis of padded size, rounded before the weight as transformers does."""
    wide = x.to(tl.float32)
    scaled = wide * tl.rsqrt(tl.sum(wide * wide, AXIS, keep_dims=True) / SIZE + eps)
    return (scaled.to(x.dtype).to(tl.float32) * weight.to(tl.float32)).to(x.dtype)


@triton.jit
def rope_write_kernel(
    qkv,
    query,
    keys,
    values,
    cos,
    sin,
    q_norm,
    k_norm,
    positions,
    slots,
    eps,
    qkv_row,
    slot_stride,
    token_stride,
    head_stride,
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    HALF_TILE: tl.constexpr,
    Q_NORM: tl.constexpr,
    K_NORM: tl.constexpr,
    HEADS_TILE: tl.constexpr,
    EARLY: tl.constexpr,
):
    """Some heads of one token, of queries, keys and values as they come; a head as its two halves."""
    let_next_start(EARLY)
    await_previous(EARLY)
    HALF: tl.constexpr = DIM // 2
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS_TILE + tl.arange(0, HEADS_TILE)[:, None]
    at = tl.arange(0, HALF_TILE)[None, :]
    there = (at < HALF) & (head < HEADS + 2 * KV_HEADS)
    position = tl.load(positions + row)
    slot = tl.load(slots + row)
    source = qkv + row * qkv_row + head * DIM + at
    first = tl.load(source, mask=there, other=0.0)
    second = tl.load(source + HALF, mask=there, other=0.0)
    c = tl.load(cos + position * HALF + at, mask=at < HALF, other=1.0)
    s = tl.load(sin + position * HALF + at, mask=at < HALF, other=0.0)
    if Q_NORM:
        first, second = _head_normed(first, second, q_norm, at, head < HEADS, eps, DIM)
    if K_NORM:
        is_key = (head >= HEADS) & (head < HEADS + KV_HEADS)
        first, second = _head_normed(first, second, k_norm, at, is_key, eps, DIM)
    turns = head < HEADS + KV_HEADS
    x, y = first.to(tl.float32), second.to(tl.float32)
    first = tl.where(turns, (x * c - y * s).to(first.dtype), first)
    second = tl.where(turns, (y * c + x * s).to(second.dtype), second)

    is_query = there & (head < HEADS)
    place = query + (row * HEADS + head) * DIM + at
    tl.store(place, first, mask=is_query)
    tl.store(place + HALF, second, mask=is_query)
    new = slot * slot_stride + position * token_stride
    is_key = there & (head >= HEADS) & turns
    place = keys + new + (head - HEADS) * head_stride + at
    tl.store(place, first, mask=is_key)
    tl.store(place + HALF, second, mask=is_key)
    is_value = there & (head >= HEADS + KV_HEADS)
    place = values + new + (head - HEADS - KV_HEADS) * head_stride + at
    tl.store(place, first, mask=is_value)
    tl.store(place + HALF, second, mask=is_value)


@triton.jit
def _head_normed(first, second, weight, at, chosen, eps, DIM: tl.constexpr):
    """RMSNorm over each chosen head, given as its halves; the others as they are."""
    HALF: tl.constexpr = DIM // 2
    x, y = first.to(tl.float32), second.to(tl.float32)
    scale = tl.rsqrt((tl.sum(x * x, 1, keep_dims=True) + tl.sum(y * y, 1, keep_dims=True)) / DIM + eps)
    w = tl.load(weight + at, mask=at < HALF, other=0.0).to(tl.float32)
    v = tl.load(weight + HALF + at, mask=at < HALF, other=0.0).to(tl.float32)
    x = ((x * scale).to(first.dtype).to(tl.float32) * w).to(first.dtype)
    y = ((y * scale).to(second.dtype).to(tl.float32) * v).to(second.dtype)
    return tl.where(chosen, x, first), tl.where(chosen, y, second)


@triton.jit
def gated_kernel(gate_up, output, INTER: tl.constexpr, TILE: tl.constexpr, EARLY: tl.constexpr):
    let_next_start(EARLY)
    await_previous(EARLY)
    row = tl.program_id(1).to(tl.int64)
    at = tl.program_id(0) * TILE + tl.arange(0, TILE)
    there = at < INTER
    gate = tl.load(gate_up + row * (2 * INTER) + at, mask=there, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * (2 * INTER) + INTER + at, mask=there, other=0.0).to(tl.float32)
    tl.store(output + row * INTER + at, (gate / (1.0 + tl.exp(-gate)) * up).to(output.dtype.element_ty), mask=there)
