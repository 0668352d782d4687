"""Microseconds of work on a GPU: many launches captured in a graph, whose replays are timed by events."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch

from loadtest.kernel_clock import event_seconds

BANDWIDTH = 4.3e12
"""Bytes a second, read and written, that a copy moves on an H200."""

CACHE_BYTES = 200_000_000
"""More than the cache holds: buffers of this size together are not found there."""


def microseconds(calls: Sequence[Callable[[], object]], *, replays: int = 10, launches: int = 40) -> float:
    """The median time of one call. The calls do the same over different buffers, and are launched in turn."""
    for call in calls:
        call()  # compiled and allocated before it is captured
    torch.cuda.synchronize()
    launches = max(launches // len(calls), 1) * len(calls)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for launch in range(launches):
            calls[launch % len(calls)]()
    graph.replay()
    times: list[float] = []
    for _ in range(replays):
        times.append(event_seconds(graph.replay) * 1e6 / launches)
    return statistics.median(times)


def copies(bytes_each: float, most: int = 64) -> int:
    """How many buffers of a size to rotate over, so that none is still in the cache when its turn comes."""
    return min(most, max(2, int(CACHE_BYTES // max(bytes_each, 1)) + 1))


def floor_us(moved: float) -> float:
    """What moving so many bytes takes at least."""
    return moved / BANDWIDTH * 1e6


def relative_error(ours: torch.Tensor, expected: torch.Tensor) -> float:
    """NaN where anything is."""
    return float((ours.double() - expected.double()).norm() / expected.double().norm())
