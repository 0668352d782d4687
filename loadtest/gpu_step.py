"""A decode step of the whole model as a bare CUDA graph, with and without what makes it fast, beside the floor.

    python -m loadtest.gpu_step                    milliseconds a step: as used, and with one thing changed
    python -m loadtest.gpu_step --no-pdl           no kernel starts before the one before it has ended
    python -m loadtest.gpu_step --profile          and where the time of the step as used goes

Llama-8B shape, random weights, bf16, 1,024 tokens of context a sequence; the draw at temperature 0 is in it. Kernels
that start early wait inside the profile's figures, which so sum to more than the step: see --no-pdl --profile too.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.profiler import ProfilerActivity, profile

from chatserve.model.attention_decode import DecodeKernel
from chatserve.model.attention_mixed import DecodeStep
from chatserve.model.decoder import Angles
from chatserve.model.decoder_shape import DecoderShape
from chatserve.model.decoder_weights import DecoderWeights, empty_weights, named_tensors
from chatserve.model.draw_triton import DrawWorkspace, draw_tokens
from chatserve.model.fused import DeviceOps, FusedWeights
from chatserve.model.matvec_triton import TritonMatvecs
from chatserve.model.ops_triton import TritonOps
from chatserve.model.product_triton import Choice, ProductTiling, TritonProducts, product_tiling
from chatserve.model.step import StepRows
from loadtest.kernel_clock import event_seconds
from loadtest.report import keep, options

SHAPE = DecoderShape(
    layers=32,
    hidden=4096,
    inter=14336,
    heads=32,
    kv_heads=8,
    head_dim=128,
    vocab=49152,
    eps=1e-5,
    tied=False,
    qkv_bias=False,
    o_bias=False,
    mlp_bias=False,
    head_norms=False,
    spread=0.02,
)
CONTEXT = 1024
FLOOR_MS = {1: 3.37, 8: 3.59, 64: 5.34, 256: 11.33}
REPLAYS, ROUNDS = 20, 7


@dataclass(frozen=True)
class Way:
    """early: kernels start while others end.  choose: which products are ours."""

    early: bool = True
    choose: Choice = product_tiling


def torchs(_rows: int, _out: int, _inner: int, _gated: bool) -> ProductTiling | None:
    """No product of few rows."""
    return None


def but_gated(rows: int, out: int, inner: int, gated: bool) -> ProductTiling | None:
    """All products of few rows but those of gate and up."""
    return None if gated else product_tiling(rows, out, inner, gated)


WAYS = {"as_used": Way(), "torch_gate_up": Way(choose=but_gated), "torch_products": Way(choose=torchs)}
NO_PDL = {"no_pdl": Way(early=False), "no_pdl_torch_products": Way(early=False, choose=torchs)}


class Steps:
    """One batch size: its arena and inputs, over which each way's step is captured."""

    def __init__(self, weights: DecoderWeights, batch: int) -> None:
        self._weights, self._batch = weights, batch
        device = weights.embed.device
        shape = (batch, CONTEXT, SHAPE.layers, 2, SHAPE.kv_heads, SHAPE.head_dim)
        self._kv = torch.empty(shape, dtype=weights.embed.dtype, device=device).normal_()
        angles = torch.rand(CONTEXT, SHAPE.head_dim // 2, device=device) * 6
        self._angles = Angles(angles.cos(), angles.sin())
        numbers = torch.arange(batch, device=device)
        self._rows = StepRows(numbers, torch.full_like(numbers, CONTEXT - 1), numbers)
        self._temperatures = torch.zeros(batch, device=device)

    def captured(self, way: Way) -> torch.cuda.CUDAGraph:
        device, rows = self._kv.device, self._rows
        ops = TritonOps(TritonProducts(device, choose=way.choose, early=way.early), early=way.early)
        fused = FusedWeights(self._weights, self._angles, DeviceOps(ops, TritonMatvecs(early=way.early)))
        network = fused.over(self._kv)
        kernel = DecodeKernel(self._kv, SHAPE.heads, most_rows=self._batch, early=way.early)
        space = DrawWorkspace.of(self._batch, SHAPE.vocab, device, early=way.early)
        newest = torch.zeros(self._batch, dtype=torch.int64, device=device)

        def step() -> None:
            attention = DecodeStep(kernel, kernel.plan(rows.slots, rows.positions + 1))
            logits = network.logits(rows, attention, None)
            draw_tokens(logits, self._temperatures, rows.slots, rows.slots, newest, space)

        step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        return graph


def milliseconds(graph: torch.cuda.CUDAGraph) -> float:
    """The median time of a step, of steps that follow one another."""

    def run() -> None:
        for _ in range(REPLAYS):
            graph.replay()

    run()
    return statistics.median(event_seconds(run) for _ in range(ROUNDS)) / REPLAYS * 1e3


def kernels(replay: Callable[[], None], most: int = 12) -> list[str]:
    """Of one step's kernels the longest together: milliseconds in all, launches, microseconds each, name."""
    replay()
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        replay()
        torch.cuda.synchronize()
    events = sorted(found.key_averages(), key=lambda event: -event.self_device_time_total)[:most]
    return [
        f"{event.self_device_time_total / 1e3:7.3f} ms {event.count:4d} x "
        f"{event.self_device_time_total / max(event.count, 1):7.1f} us  {event.key[:70]}"
        for event in events
    ]


def main() -> None:
    """Each batch size, each way."""
    parser = options(__doc__, "gpu_step")
    parser.add_argument("--no-pdl", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--batches", type=int, nargs="+", default=list(FLOOR_MS))
    chosen = parser.parse_args()
    torch.manual_seed(0)
    weights = empty_weights(SHAPE, torch.bfloat16, torch.device("cuda"))
    for tensor in named_tensors(weights).values():
        tensor.normal_(0.0, SHAPE.spread)
    ways = NO_PDL if chosen.no_pdl else WAYS
    figures: dict[str, dict[str, float]] = {}
    lines: dict[str, list[str]] = {}
    with torch.inference_mode():
        for batch in chosen.batches:
            steps = Steps(weights, batch)
            graphs = {name: steps.captured(way) for name, way in ways.items()}
            times = {name: round(milliseconds(graph), 3) for name, graph in graphs.items()}
            figures[f"B={batch}"] = {"floor": FLOOR_MS.get(batch, 0.0), **times}
            if chosen.profile:
                lines[f"B={batch}"] = kernels(next(iter(graphs.values())).replay)
            del steps, graphs
    keep(chosen.out, {"ms_a_step": figures, "kernels": lines})


if __name__ == "__main__":
    main()
