"""KV memory over batch sizes: what each way of allocating takes while requests grow to their lengths.

Ours is measured through a real manager on a real driver, which maps what the requests need as they grow; native and
paged preallocation are arithmetic: one reserves the longest sequence for each request, the other its share at start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from loadtest.memory_shape import Shape
from vtensor.driver.base import Driver
from vtensor.manager import Manager

BATCHES = (1, 2, 4, 8, 16, 32, 64)
MEDIAN_LENGTH = 1_500
SPREAD = 0.9
SHORTEST = 64
GROWTH = 64
"""Tokens between two looks."""


def lengths(batch: int, longest: int, seed: int) -> list[int]:
    """Tokens of each request at its end: log-normal, as chats are: many short, a few long."""
    drawn = np.random.default_rng(seed).lognormal(np.log(MEDIAN_LENGTH), SPREAD, batch)
    return [int(length) for length in np.clip(drawn, SHORTEST, longest)]


def over_batches(open_driver: Callable[[], Driver], shape: Shape, seed: int) -> list[dict[str, Any]]:
    """One row a batch size; bytes."""
    rows = []
    for batch in BATCHES:
        ends = lengths(batch, shape.max_len, seed)
        used = sum(ends) * shape.token_bytes
        native = shape.native_bytes(batch)
        ours = grown(open_driver(), shape, ends)
        rows.append(
            {
                "batch": batch,
                "tokens": sum(ends),
                "used_bytes": used,
                "native_bytes": native,
                "native_fits": native <= shape.most_chunks_bytes,
                "paged_bytes": shape.paged_bytes,
                **ours,
                "ours_rounding_loss": round(1 - used / ours["ours_bytes"], 4),
                "device_free_share_native": round(max(0, shape.most_chunks_bytes - native) / shape.device_bytes, 4),
                "device_free_share_paged": round(1 - (shape.paged_bytes + shape.weights_bytes) / shape.device_bytes, 4),
                "device_free_share_ours": round((shape.most_chunks_bytes - ours["ours_bytes"]) / shape.device_bytes, 4),
            }
        )
    return rows


def grown(driver: Driver, shape: Shape, ends: list[int]) -> dict[str, Any]:
    """All requests start at half their length and grow together to their ends; then all are released.

    ours_bytes: physical memory when all are at their ends.  taken_bytes: what the device had less by then.
    loss_mean: mapped memory that held no token, on average while they grew.
    """
    layout = shape.layout(driver)
    before = driver.free_bytes()
    manager = Manager(driver, layout, slots=len(ends), limit=shape.most_chunks_bytes // layout.chunk_bytes)
    try:
        now = [end // 2 for end in ends]
        vtensors = [manager.create(rows) for rows in now]
        losses = []
        while now != ends:
            now = [min(rows + GROWTH, end) for rows, end in zip(now, ends, strict=True)]
            for vtensor, rows in zip(vtensors, now, strict=True):
                manager.extend(vtensor, rows)
            stats = manager.stats()
            losses.append(1 - sum(now) * shape.token_bytes / stats.bytes(stats.physical_chunks))
        stats, taken = manager.stats(), before - driver.free_bytes()
        for vtensor in vtensors:
            manager.release(vtensor)
        manager.give_back()
        manager.audit()
        left = manager.stats()
    finally:
        manager.close()
    return {
        "ours_bytes": stats.bytes(stats.physical_chunks),
        "ours_taken_bytes": taken,
        "ours_loss_mean": round(sum(losses) / len(losses), 4),
        "ours_bytes_after_release": left.bytes(left.physical_chunks),
        "driver_calls": stats.driver_calls,
    }
