"""Products with one row: checked, timed beside torch's, and tuned."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import linear
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

from chatserve.model.matvec_triton import MatvecTiling, TritonMatvecs
from chatserve.model.ops_torch import TorchMatvecs
from loadtest.gpu_clock import copies, microseconds, relative_error

SHAPES = {
    "qkv": (6144, 4096),
    "o": (4096, 4096),
    "gate_up": (28672, 4096),
    "down": (4096, 14336),
    "head": (49152, 4096),
}
NORMED = ("qkv", "head")

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
