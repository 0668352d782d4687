"""What a full memory costs: the same crowd with memory to spare, then with every newcomer in an evicted one's place.

    python -m loadtest.gpu_eviction .models/llama-8b-shape
    python -m loadtest.gpu_eviction .models/smollm2-135m-instruct --device cpu     small, to see that it runs

In one process, without sockets. Each wave is a crowd of new conversations of a few turns. The KV limit is a little more
than two waves: from the third on, what one wave records another one has to give up.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chatserve.engine.process import SWITCH_INTERVAL
from loadtest.engine_watch import EngineWatch, RandomTokens, spread
from loadtest.in_process import Bench, has_weights
from loadtest.kept import RESULTS, Kept, say

WAVES = 5
ROOM = 2.3
"""Waves that memory has room for."""


@dataclass(frozen=True, slots=True)
class Size:
    """crowd: conversations at once.  question, answer: tokens of each turn.

    system: tokens that all share; they end inside a chunk, so every conversation begins with a copy.
    """

    crowd: int
    system: int
    question: int
    answer: int
    turns: int

    @property
    def rows(self) -> int:
        """Of one conversation at its end, the shared ones left out."""
        return self.turns * (self.question + self.answer)


LARGE = Size(crowd=256, system=600, question=128, answer=128, turns=6)
SMALL = Size(crowd=4, system=64, question=24, answer=8, turns=2)


class Waves:
    """Conversations of random tokens, a crowd at a time."""

    def __init__(self, bench: Bench, size: Size) -> None:
        self._watch = EngineWatch(bench)
        self._size = size
        self._words = RandomTokens(bench.model.spec.vocab_size).draw
        self._system = self._words(size.system)

    def wave(self) -> dict[str, Any]:
        """Every conversation's turns, all together turn by turn."""
        size, watch = self._size, self._watch
        before, began, steps = watch.stats(), time.perf_counter(), len(watch.ended)
        pasts = [self._system] * size.crowd
        firsts: list[list[float]] = []
        for _ in range(size.turns):
            prompts = [[*past, *self._words(size.question)] for past in pasts]
            asks = [watch.ask(prompt, size.answer) for prompt in prompts]
            watch.until(lambda asks=asks: all(ask.over for ask in asks))  # type: ignore[misc]
            pasts = [prompt + ask.tokens for prompt, ask in zip(prompts, asks, strict=True)]
            firsts.append([ask.ttft for ask in asks])
        seconds, after = time.perf_counter() - began, watch.stats()
        return {
            "seconds": round(seconds, 3),
            "tokens_a_second": round(size.crowd * size.turns * size.answer / seconds, 1),
            "first_turn_ttft_ms": spread(firsts[0]),
            "later_turns_ttft_ms": spread([each for turn in firsts[1:] for each in turn]),
            "step_ms": spread(watch.gaps(steps)),
            "steps": len(watch.ended) - steps,
            **{
                name: getattr(after, name) - getattr(before, name)
                for name in ("evicted_chunks", "driver_calls", "takeovers", "matches", "stalls", "preemptions")
            },
        }


def kv_bytes(bench_bytes_a_token: int, size: Size) -> int:
    """Of ROOM waves, each conversation rounded up by half a chunk or so."""
    return int(ROOM * size.crowd * (size.rows + 128) * bench_bytes_a_token)


def measure(bench: Bench, size: Size, kept: Kept) -> None:
    """Wave after wave, each kept as soon as it is there."""
    waves, found = Waves(bench, size), list[dict[str, Any]]()
    for number in range(WAVES):
        found.append({"wave": number + 1, **waves.wave()})
        kept.put("waves", found)
        say(str(found[-1]))


def main() -> None:
    """The waves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder with config.json and a tokenizer")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--token-bytes", type=int, default=131_072, help="KV of one token (the Llama-8B shape's)")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_eviction.json")
    options = parser.parse_args()
    size = SMALL if options.device == "cpu" else LARGE
    sys.setswitchinterval(SWITCH_INTERVAL)
    say("loading")
    with Bench(
        options.model,
        device=options.device,
        max_running=size.crowd,
        kv_bytes=kv_bytes(options.token_bytes, size),
        random_weights=not has_weights(options.model),
    ) as bench:
        measure(bench, size, Kept(options.out))
        bench.engine.audit()


if __name__ == "__main__":
    main()
