"""What the next turn costs in memory calls: taking a warm slot over, and branching from the middle of a conversation.

    python loadtest/takeover.py

The vTensor manager alone, on the host driver, or on a GPU with --driver cuda and the Llama-8B shape (128 KiB of KV a
token); chunks of 256 tokens either way.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np

from loadtest.report import keep, options
from vtensor.driver.base import Driver
from vtensor.driver.registry import open_driver
from vtensor.layout import KVLayout
from vtensor.manager import Manager
from vtensor.reusing import Origin

LENGTHS = (256, 1_024, 4_096, 16_384, 65_536)
ROUNDS = 30
TURN = 20
MOST_CHUNKS = 2048


@dataclass(frozen=True, slots=True)
class Heads:
    """What a token's KV is made of."""

    layers: int
    kv_heads: int
    head_dim: int
    itemsize: int


HEADS = {"host": Heads(2, 1, 8, 4), "cuda": Heads(32, 8, 128, 2)}
"""Small on the host, so that 64K tokens fit into any machine; the calls are the same for any size of chunk."""


def layout(driver: Driver, heads: Heads) -> KVLayout:
    return KVLayout.choose(
        layers=heads.layers,
        kv_heads=heads.kv_heads,
        head_dim=heads.head_dim,
        itemsize=heads.itemsize,
        granularity=driver.granularity,
        max_len=131_072,
        chunk_tokens=256,
    )


def takeover(manager: Manager, length: int) -> dict[str, float]:
    """Turn after turn of one conversation of this length."""
    tokens = np.random.default_rng(length).integers(0, 49_152, length, dtype=np.int32)
    manager.prefix_record(manager.create(length), "", tokens)
    micros, calls = [], 0
    for _ in range(ROUNDS):
        prompt = np.append(tokens, np.full(TURN, 7, dtype=np.int32))
        before, began = manager.stats().driver_calls, time.perf_counter()
        admitted = manager.prefix_match("", prompt, 0)
        micros.append((time.perf_counter() - began) * 1e6)
        calls += manager.stats().driver_calls - before
        assert admitted.origin is Origin.TAKEN_OVER
        assert admitted.cached == length
        manager.prefix_record(admitted.vtensor, "", tokens)
    return {"tokens": length, "median_us": round(statistics.median(micros), 1), "driver_calls": calls}


def branch(manager: Manager, length: int) -> dict[str, float]:
    """A branch a little past the middle of a conversation of this length."""
    tokens = np.random.default_rng(length).integers(0, 49_152, length, dtype=np.int32)
    at = length // 2 + 9
    before, began = manager.stats(), time.perf_counter()
    admitted = manager.prefix_match("", np.append(tokens[:at], np.full(TURN, 9, dtype=np.int32)), TURN)
    micros = (time.perf_counter() - began) * 1e6
    after = manager.stats()
    manager.release(admitted.vtensor)
    return {
        "tokens": length,
        "branch_at": at,
        "us": round(micros, 1),
        "chunks_mapped": admitted.reuse.mapped // manager.layout.chunk_tokens,
        "tails_copied": after.copies - before.copies,
        "rows_copied": admitted.reuse.copied,
    }


def main() -> None:
    """Both, at every length."""
    parser = options(__doc__, "takeover")
    parser.add_argument("--driver", choices=list(HEADS), default="host")
    chosen = parser.parse_args()
    driver = open_driver(chosen.driver)
    manager = Manager(driver, layout(driver, HEADS[chosen.driver]), slots=32, limit=MOST_CHUNKS)
    figures = {
        "takeover": [takeover(manager, length) for length in LENGTHS],
        "branch": [branch(manager, length) for length in LENGTHS],
    }
    manager.audit()
    manager.close()
    keep(chosen.out, figures)


if __name__ == "__main__":
    main()
