"""A Hopper GPU for which Triton compiles where there is none: launches are noted, and tensors have no memory.

A program of its own, because Triton has one device a process. It prints what was launched and compiled, and when.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget

from chatserve.model import attention_decode, early_launch
from chatserve.model.compiling import compile_ahead
from chatserve.model.decode_graphs import DecodeGraphs
from chatserve.model.decoder import Angles
from chatserve.model.decoder_shape import DecoderShape
from chatserve.model.decoder_weights import empty_weights
from chatserve.model.draw_triton import DrawWorkspace
from chatserve.model.fused import DeviceOps, FusedWeights
from chatserve.model.matvec_triton import TritonMatvecs
from chatserve.model.ops_triton import TritonOps
from chatserve.model.product_triton import TritonProducts
from chatserve.model.step import Network

META = torch.device("meta")
SHAPE = DecoderShape(
    layers=4,
    hidden=256,
    inter=512,
    heads=4,
    kv_heads=2,
    head_dim=64,
    vocab=97,
    eps=1e-5,
    tied=False,
    qkv_bias=False,
    o_bias=False,
    mlp_bias=False,
    head_norms=False,
    spread=0.02,
)
LAUNCHED: list[str] = []
COMPILED: list[str] = []


class Utilities:
    """Of a device whose programs are never loaded."""

    def load_binary(self, *_: object) -> tuple[int, ...]:
        return 0, 0, 32, 0, 1024

    def get_device_properties(self, _: int) -> dict[str, int]:
        return {"max_shared_mem": 232448}


class Driver:
    """What Triton asks of one."""

    utils = Utilities()

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int) -> int:
        return 0

    def launcher_cls(self, source: Any, _: object) -> Callable[..., None]:
        return lambda *_: LAUNCHED.append(source.fn.__name__)


def note_compiled(**said: Any) -> None:
    COMPILED.append(said["fn"].name)


def graphs_over(network: Network, kernel: attention_decode.DecodeKernel, size: int) -> Callable[[], object]:
    """One size of decode step, to compute."""
    newest = torch.zeros(8, dtype=torch.int64, device=META)
    graphs = DecodeGraphs(network, kernel, DrawWorkspace.of(8, SHAPE.vocab, META), newest=newest, scratch=0)
    return lambda: graphs._compute(torch.empty(5, size, dtype=torch.int64, device=META))


def main(sizes: list[int]) -> None:
    triton.runtime.driver.set_active(Driver())
    triton.knobs.runtime.jit_post_compile_hook = note_compiled
    early_launch.starts_early = lambda _: True
    angles = Angles(*(torch.empty(128, SHAPE.head_dim // 2, device=META) for _ in range(2)))
    ops = DeviceOps(TritonOps(TritonProducts(META)), TritonMatvecs())
    model = FusedWeights(empty_weights(SHAPE, torch.bfloat16, META), angles, ops)
    kv_shape = (8, 128, SHAPE.layers, 2, SHAPE.kv_heads, SHAPE.head_dim)
    kv = torch.empty(kv_shape, dtype=torch.bfloat16, device=META)
    kernel = attention_decode.DecodeKernel(kv, SHAPE.heads, most_rows=8)
    shallow, whole = model.first(2).over(kv[:, :, :2]), model.over(kv)
    compile_ahead(graphs_over(shallow, kernel, size) for size in sizes)
    said = {"ahead": list(COMPILED), "launched ahead": list(LAUNCHED)}
    COMPILED.clear()
    for size in sizes:
        graphs_over(whole, kernel, size)()
    print(json.dumps(said | {"later": COMPILED, "launched": LAUNCHED}))


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]])
