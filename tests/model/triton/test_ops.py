"""The small operations and the products with one row, against plain torch in float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear, silu

from chatserve.model.matvec_triton import MatvecTiling, TritonMatvecs
from chatserve.model.ops_torch import TorchOps
from chatserve.model.ops_triton import TritonOps
from chatserve.model.step import StepRows

CLOSE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 1.2e-2}
"""Two roundings; the interpreter's of bfloat16 are cuts."""

dtypes = pytest.mark.parametrize("dtype", CLOSE, ids=str)


def error(ours: torch.Tensor, expected: torch.Tensor) -> float:
    return float((ours.double() - expected.double()).norm() / expected.double().norm())


def same(ours: torch.Tensor, expected: torch.Tensor) -> bool:
    """To the last bit; but the interpreter cuts bfloat16 off where the device rounds."""
    cuts = ours.dtype == torch.bfloat16 and ours.device.type == "cpu"
    return error(ours, expected) < CLOSE[ours.dtype] if cuts else torch.equal(ours, expected)


def randn(*shape: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, device=device).to(dtype)


@dtypes
@pytest.mark.parametrize(("rows", "hidden"), [(1, 64), (3, 1500)])
def test_norm_and_add_norm(rows: int, hidden: int, dtype: torch.dtype, device: torch.device) -> None:
    x, residual = (randn(rows, hidden, device=device, dtype=dtype) for _ in range(2))
    weight = randn(hidden, device=device, dtype=dtype)
    assert error(TritonOps().norm(x, weight, 1e-5), TorchOps().norm(x.double(), weight.double(), 1e-5)) < CLOSE[dtype]
    normed, total = TritonOps().add_norm(x, residual, weight, 1e-5)
    assert same(total, x + residual)
    assert error(normed, TorchOps().norm(total.double(), weight.double(), 1e-5)) < CLOSE[dtype]


@dtypes
@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(4, 2, 64), (28, 4, 16), (3, 1, 80), (32, 1, 96)])
def test_rope_write_rotates_and_touches_the_new_rows_only(
    heads: int, kv_heads: int, head_dim: int, normed: bool, dtype: torch.dtype, device: torch.device
) -> None:
    arena = torch.full((4, 20, 3, 2, kv_heads, head_dim), float("nan"), device=device, dtype=dtype)
    slots, positions = torch.tensor([2, 0, 2, 3], device=device), torch.tensor([3, 19, 4, 0], device=device)
    rows = StepRows(ids=positions, positions=positions, slots=slots)
    qkv = randn(4, (heads + 2 * kv_heads) * head_dim, device=device, dtype=dtype)
    angles = torch.rand(20, head_dim // 2, device=device) * 6
    q_norm, k_norm = (randn(head_dim, device=device, dtype=dtype) if normed else None for _ in range(2))
    kv = [arena[:, :, 1, side] for side in (0, 1)]
    query = TritonOps().rope_write(qkv, angles.cos(), angles.sin(), rows, *kv, heads, q_norm, k_norm, 1e-6)

    wide = [arena.float().new_zeros(4, 20, kv_heads, head_dim) for _ in range(2)]
    norms = (None if norm is None else norm.float() for norm in (q_norm, k_norm))
    expected = TorchOps().rope_write(qkv.float(), angles.cos(), angles.sin(), rows, *wide, heads, *norms, 1e-6)
    assert error(query, expected) < 2 * CLOSE[dtype]
    assert error(kv[0][slots, positions], wide[0][slots, positions]) < 2 * CLOSE[dtype]
    assert torch.equal(kv[1][slots, positions].float(), wide[1][slots, positions])
    arena[slots, positions, 1] = float("nan")
    assert arena.isnan().all()


@dtypes
@pytest.mark.parametrize(("rows", "inter"), [(1, 96), (3, 1500)])
def test_gated(rows: int, inter: int, dtype: torch.dtype, device: torch.device) -> None:
    gate_up = randn(rows, 2 * inter, device=device, dtype=dtype) * 3
    assert error(TritonOps().gated(gate_up), TorchOps().gated(gate_up.double())) < CLOSE[dtype]


TILINGS = [
    MatvecTiling(rows=4, columns=64, warps=4, stages=1),
    MatvecTiling(rows=8, columns=128, warps=4, stages=3),
    MatvecTiling(rows=2, columns=1024, warps=4, stages=1),
]
PRODUCTS = [(TILINGS[0], 10, 128), (TILINGS[1], 20, 200), (TILINGS[2], 5, 1000)]
"""Tiling, and a weight's rows and columns; with rows and columns left over."""


@dtypes
@pytest.mark.parametrize(("tiling", "out", "inner"), PRODUCTS, ids=repr)
def test_matvec_and_norm_matvec(
    out: int, inner: int, tiling: MatvecTiling, dtype: torch.dtype, device: torch.device
) -> None:
    ops = TritonMatvecs(tiling)
    x, residual, norm, weight = (
        randn(*shape, device=device, dtype=dtype) for shape in ((1, inner), (1, inner), (inner,), (out, inner))
    )
    bias = randn(out, device=device, dtype=dtype) if out > 10 else None
    wide_bias = None if bias is None else bias.double()
    product = ops.matvec(x, weight, bias)
    assert product.shape == (1, out)
    assert error(product, linear(x.double(), weight.double(), wide_bias)) < CLOSE[dtype]
    for added in (None, residual):
        product, total = ops.norm_matvec(x, added, norm, 1e-5, weight, bias)
        assert same(total, x if added is None else x + residual)
        normed = TorchOps().norm(total.double(), norm.double(), 1e-5)
        assert error(product, linear(normed, weight.double(), wide_bias)) < CLOSE[dtype]


@dtypes
@pytest.mark.parametrize(("tiling", "inter", "inner"), PRODUCTS, ids=repr)
def test_norm_gated_matvec(
    inter: int, inner: int, tiling: MatvecTiling, dtype: torch.dtype, device: torch.device
) -> None:
    x, residual, norm, weight = (
        randn(*shape, device=device, dtype=dtype) for shape in ((1, inner), (1, inner), (inner,), (2 * inter, inner))
    )
    opened, total = TritonMatvecs(tiling).norm_gated_matvec(x, residual, norm, 1e-5, weight)
    assert same(total, x + residual)
    gate, up = linear(TorchOps().norm(total.double(), norm.double(), 1e-5), weight.double()).chunk(2, dim=-1)
    assert opened.shape == (1, inter)
    assert error(opened, silu(gate) * up) < CLOSE[dtype]
