"""How long a kernel takes: replayed from a CUDA graph, so that nothing of the host is in the figure."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

PASS_SECONDS = 0.05
"""About how long one measurement takes: as many layers as fit, so that none finds its K and V in a cache."""
MOST_REPLAYS = 50
"""Of a short graph, one after the other, so that its launch is not what is measured."""


def micros_a_layer(attend: Callable[[int], object], *, layers: int, rounds: int, device: str) -> float:
    """Median microseconds of `attend(layer)`."""
    attend(0)
    if torch.device(device).type != "cuda":
        return statistics.median(_seconds(attend, layer % layers) for layer in range(rounds)) * 1e6
    one = event_seconds(lambda: attend(0))
    layers = max(1, min(layers, int(PASS_SECONDS / one)))
    replays = max(1, min(MOST_REPLAYS, int(PASS_SECONDS / one / layers)))
    graph = _captured(attend, layers)

    def run() -> None:
        for _ in range(replays):
            graph.replay()

    run()
    return statistics.median(event_seconds(run) for _ in range(rounds)) / (replays * layers) * 1e6


def _captured(attend: Callable[[int], object], layers: int) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for layer in range(layers):
            attend(layer)
    return graph


def event_seconds(launch: Callable[[], object]) -> float:
    """Seconds on the device of whatever is launched."""
    began = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    ended = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    began.record()
    launch()
    ended.record()
    ended.synchronize()
    return float(began.elapsed_time(ended)) / 1e3


def _seconds(attend: Callable[[int], object], layer: int) -> float:
    began = time.perf_counter()
    attend(layer)
    return time.perf_counter() - began
