"""FlashAttention-3 over slots. The kernel needs a Hopper GPU, and its tests fail where there is none."""

from __future__ import annotations

import pytest
import torch

from chatserve.model.attention_fa3 import MOST_SPLITS, TILE, Fa3Kernel, find_operator, plan_splits
from chatserve.model.attention_sdpa import SdpaKernel
from tests.model.tiny import make_batch

H200 = 132


@pytest.mark.parametrize(
    ("counts", "lengths", "plan"),
    [
        ([8192], [16384], 1),
        ([1024] * 8, [16384] * 8, 1),
        ([150] * 64, [1650] * 64, 1),
        ([150] * 8, [1650] * 8, 1),
        ([64], [32832], 8),
        ([64], [1600], 1),
        ([64], [4160], 4),
        ([32, 32], [32800, 600], 8),
        ([1], [131072], MOST_SPLITS),
    ],
)
def test_the_past_is_split_where_the_new_rows_alone_would_leave_the_device_idle(counts, lengths, plan):
    assert plan_splits(counts, lengths, group=4, kv_heads=8, processors=H200) == plan


def test_it_says_why_it_cannot_read_an_arena():
    assert Fa3Kernel.refuses(torch.empty(1, 8, 1, 2, 1, 64), TILE) == "FlashAttention-3 needs a Hopper GPU"


def arena(slots: int, rows: int, kv_heads: int, head_dim: int, device: str, dtype: torch.dtype) -> torch.Tensor:
    """NaN everywhere; two layers, a gap between slots."""
    shape = (2, 2, kv_heads, head_dim)
    row = torch.Size(shape).numel()
    memory = torch.full((slots * row * (rows + TILE),), float("nan"), dtype=dtype, device=device)
    return memory.as_strided((slots, rows, *shape), (row * (rows + TILE), row, *torch.empty(shape).stride()))


RAGGED = {
    "one long prompt": [(2, 0, 700)],
    "one sequence": [(1, 0, 130)],
    "after a long past": [(3, 4000, 64)],
    "one row after a long past": [(0, 4095, 1)],
    "many, ragged": [(4, 0, 1), (0, 100, 300), (2, 511, 1), (1, 1000, 129), (3, 1, 127)],
    "turns of many": [(slot, 300 + 40 * slot, 20 + 5 * slot) for slot in (5, 0, 3, 1, 4, 2)],
    "all decode": [(slot, 100 * slot + 7, 1) for slot in (3, 0, 5)],
}


@pytest.mark.gpu
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(32, 8, 128), (8, 1, 128), (16, 16, 64), (28, 4, 128)])
@pytest.mark.parametrize("name", RAGGED)
def test_it_computes_what_float32_computes(name, heads, kv_heads, head_dim):
    """Issue 3: relative error below 1e-2, over slots in an arena that is poisoned past each sequence's last tile."""
    parts = RAGGED[name]
    generator = torch.Generator("cuda").manual_seed(5)
    kv = arena(6, 4224, kv_heads, head_dim, "cuda", torch.bfloat16)
    exact = arena(6, 4224, kv_heads, head_dim, "cuda", torch.float32)
    assert Fa3Kernel.refuses(kv, TILE) is None
    for slot, start, count in parts:
        mapped = -(-(start + count) // TILE) * TILE
        kv[slot, :mapped] = torch.randn(mapped, *kv.shape[2:], generator=generator, device="cuda")
        exact[slot, : start + count] = kv[slot, : start + count].float()
    rows = sum(count for _, _, count in parts)
    query = torch.randn(rows, heads, head_dim, generator=generator, device="cuda").bfloat16()
    batch = make_batch([(slot, start, [3] * count) for slot, start, count in parts])
    operator = find_operator()
    assert operator is not None, "FlashAttention-3 is not installed"
    step, reference = Fa3Kernel(kv, operator, heads).step(batch), SdpaKernel(exact).step(batch)
    for layer in (0, 1):
        expected = reference.attend(layer, query.float(), head_dim**-0.5)
        error = (step.attend(layer, query, head_dim**-0.5).float() - expected).norm() / expected.norm()
        assert error < 1e-2
