"""The rTree with many recorded conversations: how long one match takes.

python loadtest/rtree.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np

from loadtest.report import keep, options
from vtensor.driver.base import Handle
from vtensor.pool import Chunk, PSet
from vtensor.rtree import RTree

CONVERSATIONS = 10_000
LONGEST = 131_072
SYSTEM = 512
CHUNK = 256
ROUNDS = 50


def main() -> None:
    """Ten thousand conversations below one system prompt, some of them branched, and one of 128K tokens."""
    chosen = options(__doc__, "rtree").parse_args()
    pset, random = PSet(), np.random.default_rng(3)

    def drop(chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            pset.forget(chunk)

    tree = RTree(CHUNK, take=pset.record, drop=drop, unwarm=lambda _: None, clock=time.monotonic)
    handles = iter(range(1 << 40))

    def record(tokens: np.ndarray) -> None:
        tree.rPush("", tokens, [pset.add(Handle(next(handles))) for _ in range(-(-len(tokens) // CHUNK))])

    system = random.integers(0, 49_152, SYSTEM, dtype=np.int32)
    began = time.perf_counter()
    conversations: list[np.ndarray] = []
    for number in range(CONVERSATIONS):
        stem = conversations[-1][: 600 + number % 200] if number % 3 == 2 else system
        conversations.append(np.append(stem, random.integers(0, 49_152, 700, dtype=np.int32)))
        record(conversations[-1])
    recorded = time.perf_counter() - began
    longest = np.append(system, random.integers(0, 49_152, LONGEST - SYSTEM, dtype=np.int32))
    record(longest)

    def match(tokens: np.ndarray) -> float:
        began = time.perf_counter()
        found = tree.rPrefixMatch("", tokens)
        micros = (time.perf_counter() - began) * 1e6
        assert found.length == len(tokens)
        return micros

    keep(
        chosen.out,
        {
            "conversations": CONVERSATIONS,
            "nodes": tree.extents.total.nodes,
            "tokens": tree.extents.total.tokens,
            "record_us_mean": round(recorded / CONVERSATIONS * 1e6, 1),
            "match_128k_tokens_us_median": round(statistics.median(match(longest) for _ in range(ROUNDS)), 1),
            "match_1k_tokens_us_median": round(statistics.median(match(each) for each in conversations[::20]), 1),
        },
    )


if __name__ == "__main__":
    main()
