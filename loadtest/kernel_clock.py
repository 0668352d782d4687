"""How long a kernel takes: replayed from a CUDA graph, so that nothing of the host is in the figure."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

PASS_SECONDS = 0.05
"""About how long one replay may take: as many layers are in it as fit, so that none finds its K and V in a cache."""


def micros_a_layer(attend: Callable[[int], object], *, layers: int, rounds: int, device: str) -> float:
    """Median microseconds of `attend(layer)`."""
    attend(0)
    if torch.device(device).type != "cuda":
        return statistics.median(_seconds(attend, layer % layers) for layer in range(rounds)) * 1e6
    one = _event_seconds(lambda: attend(0))
    layers = max(1, min(layers, int(PASS_SECONDS / one)))
    graph = _captured(attend, layers)
    graph.replay()
    return statistics.median(_event_seconds(graph.replay) for _ in range(rounds)) / layers * 1e6


def _captured(attend: Callable[[int], object], layers: int) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for layer in range(layers):
            attend(layer)
    return graph


def _event_seconds(launch: Callable[[], object]) -> float:
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
