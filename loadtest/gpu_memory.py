"""Extend ahead on a GPU: many requests decode past chunk edges; who waits for memory, and how much is rounded away?

    python -m loadtest.gpu_memory .models/llama-8b-shape

An engine in this process over random weights of a Llama-8B shape (bf16, 128 KiB of KV a token). Prompts are of unequal
length, so that chunk edges are met at unequal times; then of equal length, so that all meet theirs in one step.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chatserve.engine.process import SWITCH_INTERVAL
from loadtest.engine_watch import EngineWatch
from loadtest.in_process import Bench
from loadtest.kept import RESULTS, Kept, say

CHUNK_EDGE_SPREAD = 256


@dataclass(frozen=True, slots=True)
class Size:
    """Sequences of about `context` tokens in the middle of their answers of `new_tokens`."""

    requests: int
    context: int
    new_tokens: int


LARGE = Size(requests=64, context=4_096, new_tokens=640)
QUICK = Size(requests=64, context=4_096, new_tokens=300)
SMALL = Size(requests=3, context=600, new_tokens=20)


def rounding_loss(bench: Bench, requests: int) -> float | None:
    """Of the mapped rows, the share that no token fills yet; None unless so many requests decode."""
    running = bench.engine.running()
    if len(running) < requests or not all(request.output for request in running):
        return None
    used = sum(request.computed for request in running)
    mapped = sum(request.vtensor.rows for request in running if request.vtensor is not None)
    return 1 - used / mapped


def measure(bench: Bench, lengths: Sequence[int], new_tokens: int) -> dict[str, Any]:
    """Prompts of these lengths, then `new_tokens` decode steps together."""
    watch, before, random = EngineWatch(bench), bench.engine.stats(), np.random.default_rng(1)
    began = time.perf_counter()
    asks = [
        watch.ask(
            [int(each) for each in random.integers(0, bench.model.spec.vocab_size, length)], new_tokens, reuse=False
        )
        for length in lengths
    ]
    losses: list[float] = []
    while not all(ask.over for ask in asks):
        watch.steps(1)
        loss = rounding_loss(bench, len(lengths))
        if loss is not None:
            losses.append(loss)
    seconds = time.perf_counter() - began
    bench.engine.audit()
    after = bench.engine.stats()
    watch.flush()
    return {
        "requests": len(lengths),
        "prompt_tokens": sum(lengths),
        "new_tokens_each": new_tokens,
        "chunk_tokens": after.chunk_tokens,
        "steps": after.steps - before.steps,
        "decode_step_ms_median": round(statistics.median(watch.gaps(-new_tokens // 2)) * 1e3, 2),
        "seconds": round(seconds, 2),
        "stalls": after.stalls - before.stalls,
        "preemptions": after.preemptions - before.preemptions,
        "rounding_loss_mean": round(statistics.mean(losses), 4),
        "rounding_loss_max": round(max(losses), 4),
        "driver_calls": after.driver_calls - before.driver_calls,
    }


def main() -> None:
    """Both runs, printed and kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder with config.json and a tokenizer")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="shorter answers")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_memory.json")
    options = parser.parse_args()
    size = SMALL if options.device == "cpu" else QUICK if options.quick else LARGE
    sys.setswitchinterval(SWITCH_INTERVAL)
    kept = Kept(options.out)
    say("loading")
    longest = size.context + CHUNK_EDGE_SPREAD + size.new_tokens
    start = size.context - size.new_tokens // 2
    spread = np.random.default_rng(0).integers(-CHUNK_EDGE_SPREAD, CHUNK_EDGE_SPREAD, size.requests)
    runs = {"unequal": [int(start + offset) for offset in spread], "in step": [start] * size.requests}
    with Bench(
        options.model, device=options.device, max_running=size.requests, max_len=2 * longest, random_weights=True
    ) as bench:
        for name, lengths in runs.items():
            kept.put(name, measure(bench, lengths, size.new_tokens))
            say(f"{name}: {kept.figures[name]}")


if __name__ == "__main__":
    main()
