"""Products with one row and with few: checked, timed beside torch's, and tuned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch.nn.functional import linear
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

from chatserve.model.matvec_triton import MatvecTiling, TritonMatvecs
from chatserve.model.ops_torch import TorchMatvecs, TorchOps
from chatserve.model.ops_triton import TritonOps
from chatserve.model.product_triton import ProductTiling, TritonProducts
from loadtest.gpu_clock import copies, microseconds, relative_error

SHAPES = {
    "qkv": (6144, 4096),
    "o": (4096, 4096),
    "gate_up": (28672, 4096),
    "down": (4096, 14336),
    "head": (49152, 4096),
}
NORMED = ("qkv", "head")
FEW = (2, 4, 8, 16, 32, 64)
TUNED = (16, 64)
"""Numbers of rows, up to each of which one kernel is compiled."""

FEW_TILINGS = [
    ProductTiling(*each)
    for each in [
        (64, 128, 4, 4, 264),
        (64, 128, 4, 5, 264),
        (64, 256, 4, 3, 132),
        (64, 64, 4, 6, 264),
        (128, 128, 8, 4, 132),
        (128, 64, 8, 4, 264),
        (128, 64, 8, 6, 132),
        (128, 64, 4, 4, 264),
    ]
]
GATED_TILINGS = [
    ProductTiling(*each, programs=1)
    for each in [(64, 128, 4, 3), (64, 64, 4, 4), (64, 64, 4, 3), (64, 64, 8, 4), (128, 64, 8, 4), (128, 64, 8, 5)]
]

Call = Callable[[TritonMatvecs | TorchMatvecs, torch.Tensor], torch.Tensor]


def call_of(name: str) -> Call:
    """The product as a decoder's layer has it."""
    inner = SHAPES[name][1]
    x, residual, norm = (torch.randn(*shape, device="cuda").bfloat16() for shape in ((1, inner), (1, inner), (inner,)))
    if name == "gate_up":
        return lambda ops, weight: ops.norm_gated_matvec(x, residual, norm, 1e-5, weight)[0]
    if name in NORMED:
        return lambda ops, weight: ops.norm_matvec(x, residual, norm, 1e-5, weight, None)[0]
    return lambda ops, weight: ops.matvec(x, weight, None)


def weights(name: str) -> list[torch.Tensor]:
    out, inner = SHAPES[name]
    return [torch.randn(out, inner, device="cuda").bfloat16() * 0.02 for _ in range(copies(out * inner * 2))]


def check_products() -> dict[str, float]:
    """Relative errors against the same in plain torch."""
    errors = {}
    for name, (out, inner) in SHAPES.items():
        call, weight = call_of(name), torch.randn(out, inner, device="cuda").bfloat16() * 0.02
        errors[f"product {name}"] = relative_error(call(TritonMatvecs(), weight), call(TorchMatvecs(), weight))
    return errors


def time_products() -> dict[str, dict[str, float | str]]:
    """Ours with what is fused into it, and torch's product alone."""
    figures: dict[str, dict[str, float | str]] = {}
    for name, (out, inner) in SHAPES.items():
        many, call, ops = weights(name), call_of(name), TritonMatvecs()
        x = torch.randn(1, inner, device="cuda").bfloat16()
        ours = microseconds([partial(call, ops, w) for w in many])
        theirs = microseconds([partial(linear, x, w) for w in many])
        moved = out * inner * 2
        figures[f"{name} {out}x{inner}"] = {
            "us": round(ours, 2),
            "GB/s": round(moved / ours / 1e3),
            "torch_us": round(theirs, 2),
            "torch_GB/s": round(moved / theirs / 1e3),
        }
    return figures


def few_rows_call(name: str, ops: TritonOps | TorchOps) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """The product of few rows as a decoder's layer has it, over x and the weight."""
    if name == "gate_up":
        return lambda x, weight: ops.gated_linear(x, weight, None)
    return lambda x, weight: ops.linear(x, weight, None)


def check_few_rows() -> dict[str, float]:
    """Relative errors against the same in plain torch, the largest of all numbers of rows."""
    ours, errors = TritonOps(TritonProducts(torch.device("cuda"))), {}
    for name, (out, inner) in SHAPES.items():
        weight, found = torch.randn(out, inner, device="cuda").bfloat16() * 0.02, []
        for rows in (*FEW, 3, 17, 33):
            x = torch.randn(rows, inner, device="cuda").bfloat16()
            found.append(relative_error(*(few_rows_call(name, ops)(x, weight) for ops in (ours, TorchOps()))))
        errors[f"few rows {name}"] = max(found)
    return errors


def time_few_rows() -> dict[str, dict[str, float | str]]:
    """Microseconds by numbers of rows, ours and torch's; gate and up with what opens them."""
    figures: dict[str, dict[str, float | str]] = {}
    ours, torchs = TritonOps(TritonProducts(torch.device("cuda"))), TritonOps()
    for name in ("qkv", "o", "gate_up", "down"):
        many = weights(name)
        for rows in FEW:
            x = torch.randn(rows, SHAPES[name][1], device="cuda").bfloat16()
            times = [
                round(microseconds([partial(few_rows_call(name, ops), x, w) for w in many]), 2)
                for ops in (ours, torchs)
            ]
            moved = many[0].numel() * 2
            figures[f"{name}, {rows} rows"] = {
                "us": times[0],
                "torch_us": times[1],
                "GB/s": round(moved / times[0] / 1e3),
                "torch_GB/s": round(moved / times[1] / 1e3),
            }
    return figures


def tune_few_rows() -> dict[str, dict[str, list[str]]]:
    """The three fastest tilings of each shape and number of rows, and what could not be compiled."""
    best: dict[str, dict[str, list[str]]] = {}
    for name in ("qkv", "o", "gate_up", "down"):
        many = weights(name)
        for rows in TUNED:
            x = torch.randn(rows, SHAPES[name][1], device="cuda").bfloat16()
            timed, refused = few_rows_times(name, GATED_TILINGS if name == "gate_up" else FEW_TILINGS, x, many)
            lines = [f"{time:.2f} us {one}" for time, one in timed[:3]]
            best[f"{name}, {rows} rows"] = {"best": lines, "refused": refused}
    return best


def few_rows_times(
    name: str, tilings: Sequence[ProductTiling], x: torch.Tensor, many: list[torch.Tensor]
) -> tuple[list[tuple[float, ProductTiling]], list[str]]:
    """Each tiling's microseconds, the fastest first, and why others have none."""
    timed, refused = [], []
    for one in tilings:

        def chosen(_rows: int, _out: int, _inner: int, _gated: bool, one: ProductTiling = one) -> ProductTiling:
            return one

        call = few_rows_call(name, TritonOps(TritonProducts(x.device, choose=chosen)))
        try:
            timed.append((microseconds([partial(call, x, w) for w in many], replays=5), one))
        except (CompilationError, OutOfResources, PTXASError) as error:
            refused.append(f"{one}: {type(error).__name__} {str(error)[:80]}")
    return sorted(timed, key=lambda pair: pair[0]), refused


def tune_products() -> dict[str, dict[str, list[str]]]:
    """The five fastest tilings of each shape, and what could not be compiled."""
    shapes = [(8, 512, 4, 1), (4, 2048, 4, 1), (2, 4096, 8, 1), (16, 512, 8, 1), (1, 4096, 4, 1), (2, 1024, 2, 1)]
    shapes += [(8, 512, 4, 3), (8, 512, 4, 5), (4, 1024, 4, 4), (16, 512, 8, 4), (4, 512, 2, 5)]
    shapes += [(4, 4096, 8, 1), (2, 2048, 4, 1), (1, 2048, 2, 1), (8, 1024, 4, 1)]
    tilings = [MatvecTiling(*shape) for shape in shapes]
    best: dict[str, dict[str, list[str]]] = {}
    for name, (out, inner) in SHAPES.items():
        many, call = weights(name), call_of(name)
        timed, refused = [], []
        for one in tilings:
            ops = TritonMatvecs(one)
            try:
                timed.append((microseconds([partial(call, ops, w) for w in many]), one))
            except (CompilationError, OutOfResources, PTXASError) as error:
                refused.append(f"{one}: {type(error).__name__} {str(error)[:80]}")
        timed.sort(key=lambda pair: pair[0])
        lines = [f"{time:.2f} us {out * inner * 2 / time / 1e3:.0f} GB/s {one}" for time, one in timed[:5]]
        best[name] = {"best": lines, "refused": refused}
    return best
