"""Products with few rows, alone and gated, against plain torch in float64."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear, silu

from chatserve.model.ops_triton import TritonOps
from chatserve.model.product_triton import ProductTiling, TritonProducts, product_tiling

SPLIT = ProductTiling(out=64, inner=32, warps=4, stages=2, programs=9)
WHOLE = ProductTiling(out=128, inner=64, warps=8, stages=3, programs=1)

CLOSE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}
PLACES = [
    pytest.param("cpu", torch.float16),  # the interpreter multiplies no bfloat16
    pytest.param("cuda", torch.float16, marks=pytest.mark.gpu),
    pytest.param("cuda", torch.bfloat16, marks=pytest.mark.gpu),
]
on_places = pytest.mark.parametrize(("device", "dtype"), PLACES)


def ops(device: str, one: ProductTiling | None) -> TritonOps:
    return TritonOps(TritonProducts(torch.device(device), choose=lambda *_: one))


def error(ours: torch.Tensor, expected: torch.Tensor) -> float:
    return float((ours.double() - expected).norm() / expected.norm())


@on_places
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("one", "rows", "out", "inner"),
    [(SPLIT, 3, 200, 520), (SPLIT, 17, 64, 1024), (WHOLE, 5, 130, 200), (WHOLE, 33, 256, 128)],
    ids=repr,
)
def test_linear_and_gated_linear(
    one: ProductTiling, rows: int, out: int, inner: int, biased: bool, device: str, dtype: torch.dtype
) -> None:
    x = torch.randn(rows, inner + 8, device=device).to(dtype)[:, :inner]
    weight = (torch.randn(2 * out, inner, device=device) * inner**-0.5).to(dtype)
    bias = torch.randn(2 * out, device=device).to(dtype) if biased else None
    wide = linear(x.double(), weight.double(), None if bias is None else bias.double())
    ours = ops(device, one)
    for _ in range(2):  # the second after the first has used what products share
        assert error(ours.linear(x, weight, bias), wide) < CLOSE[dtype]
    gate, up = wide.chunk(2, dim=-1)
    assert error(ours.gated_linear(x, weight, bias), silu(gate) * up) < CLOSE[dtype]


@on_places
def test_parts_of_a_sum_are_added_in_one_order(device: str, dtype: torch.dtype) -> None:
    x, weight = (torch.randn(rows, 2048, device=device).to(dtype) for rows in (4, 128))
    ours = ops(device, SPLIT)
    first = ours.linear(x, weight, None)
    assert all(torch.equal(ours.linear(x, weight, None), first) for _ in range(3 if device == "cpu" else 200))


def test_where_no_tiling_is_chosen_torch_computes_it() -> None:
    x, weight = torch.randn(3, 64), torch.randn(20, 64)
    for ours in (TritonOps(), ops("cpu", None), ops("cpu", SPLIT)):  # in single precision none ever is
        assert torch.equal(ours.linear(x, weight, None), linear(x, weight))


def test_decode_rows_are_chosen_for_and_prompts_are_not() -> None:
    assert product_tiling(1, 4096, 4096, False) is None
    assert product_tiling(65, 4096, 4096, False) is None
    for rows in (2, 16, 17, 32):
        for out, inner in ((6144, 4096), (4096, 4096), (4096, 14336)):
            one = product_tiling(rows, out, inner, False)
            assert one is not None
            assert 64 < one.splits(out, inner) * out // one.out <= 264, "enough programs, and all at once"


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [2, 16, 40, 64])
@pytest.mark.parametrize(("out", "inner"), [(6144, 4096), (4096, 4096), (4096, 14336), (3584, 18944)])
def test_the_tilings_that_are_used(out: int, inner: int, rows: int) -> None:
    x, weight = (torch.randn(count, inner, device="cuda").bfloat16() for count in (rows, out))
    ours = TritonOps(TritonProducts(torch.device("cuda")))
    assert error(ours.linear(x, weight, None), linear(x.double(), weight.double())) < CLOSE[torch.bfloat16]
    gate, up = (linear(x.double(), weight.double()) * inner**-0.5).chunk(2, dim=-1)
    scaled = weight * inner**-0.5
    assert error(ours.gated_linear(x, scaled, None), silu(gate) * up) < 2 * CLOSE[torch.bfloat16]
