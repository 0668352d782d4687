"""The next turn after a long history: engine time to first token, taken over or branched, and what others feel of it.

    python -m loadtest.gpu_turn .models/llama-8b-shape
    python -m loadtest.gpu_turn .models/smollm2-135m-instruct --device cpu     small, to see that it runs

In one process, without sockets. A turn of 64 new rows is compared with "the same step": the last step of a cold prompt
of that length, when its history is mapped and computed already and the step was launched ahead; nothing of admitting,
mapping or launching is in it.
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

from chatserve.engine.messages import EngineStats
from chatserve.engine.process import SWITCH_INTERVAL
from loadtest.engine_watch import EngineWatch, RandomTokens, milli, spread
from loadtest.in_process import Bench, has_weights
from loadtest.kept import RESULTS, Kept, say

NEW_ROWS = 64
ANSWER = 4
STREAM = 4_000
"""Tokens that a stream among others has before it: more than it gets to."""
THINKING = 0.01
"""Seconds before a turn: its client has read the answer before, and what follows an answer is done by then."""
OFF_THE_EDGE = 37
"""A branch begins so many tokens before the history's end: inside a chunk, whose used rows are copied."""
WANTED = {"takeover_over_same_step": 1.1, "branch_more_ms": 8.0}


@dataclass(frozen=True, slots=True)
class Size:
    """step_tokens divides each history, so that a cold prompt's last step is the turn's own.

    streams, context: sequences that decode while turns come.  quiet: steps without a turn.
    """

    histories: tuple[int, ...]
    step_tokens: int
    rounds: int
    streams: int
    context: int
    quiet: int


LARGE = Size(histories=(8_192, 32_768), step_tokens=8_192, rounds=9, streams=8, context=1_024, quiet=200)
QUICK = Size(histories=(32_768,), step_tokens=8_192, rounds=5, streams=8, context=1_024, quiet=60)
SMALL = Size(histories=(256,), step_tokens=128, rounds=3, streams=2, context=32, quiet=8)


class Turns:
    """Conversations of random tokens, and the turns that follow them."""

    def __init__(self, bench: Bench, size: Size) -> None:
        self._watch = EngineWatch(bench)
        self._size = size
        self.words = RandomTokens(bench.model.spec.vocab_size).draw

    def same_step(self, history: int) -> float:
        """Seconds of the step of NEW_ROWS rows after a history that the same request has just computed."""
        ask = self._watch.answered(self.words(history + NEW_ROWS), 1, reuse=False)
        assert ask.first is not None
        last = self._watch.ended.index(ask.first)
        return ask.first - self._watch.ended[last - 1]

    def begin(self, history: int) -> list[int]:
        """A recorded conversation: its tokens, of which the last is not computed yet."""
        prompt = self.words(history - ANSWER + 1)
        return prompt + self._watch.answered(prompt, ANSWER).tokens

    def take_over(self, past: Sequence[int]) -> tuple[float, list[int]]:
        """Seconds to the first token of the turn after `past`; what it has become."""
        prompt = [*past, *self.words(NEW_ROWS - 1)]
        ask = self._watch.answered(prompt, ANSWER)
        return ask.ttft, prompt + ask.tokens

    def branch(self, past: Sequence[int], history: int) -> float:
        """Seconds to the first token of a turn that leaves the past a little before its end."""
        return self._watch.answered([*past[: history - OFF_THE_EDGE], *self.words(NEW_ROWS)], ANSWER).ttft

    def alone(self, history: int) -> dict[str, Any]:
        """Nothing else runs."""
        self.same_step(history)
        same = statistics.median(self.same_step(history) for _ in range(min(3, self._size.rounds)))
        past = first = self.begin(history)
        before = self._watch.stats()
        taken: list[float] = []
        branched: list[float] = []
        for _ in range(self._size.rounds + 1):
            time.sleep(THINKING)
            seconds, past = self.take_over(past)
            taken.append(seconds)
        for _ in range(self._size.rounds + 1):
            time.sleep(THINKING)
            branched.append(self.branch(first, history))
        check(before, self._watch.stats(), self._size.rounds + 1)
        self._watch.flush()
        takeover, branch = statistics.median(taken[1:]), statistics.median(branched[1:])
        return {
            "history": history,
            "new_rows": NEW_ROWS,
            "same_step_ms": milli(same),
            "takeover_ttft_ms": milli(takeover),
            "branch_ttft_ms": milli(branch),
            "takeover_worst_ms": milli(max(taken[1:])),
            "branch_worst_ms": milli(max(branched[1:])),
            "takeover_over_same_step": round(takeover / same, 3),
            "branch_more_ms": milli(branch - takeover),
        }

    def among_others(self, history: int) -> dict[str, Any]:
        """What streams that decode feel of turns: time between the ends of two steps."""
        watch, size = self._watch, self._size
        past = first = self.begin(history)
        others = [watch.ask(self.words(size.context), STREAM, reuse=False) for _ in range(size.streams)]
        watch.until(lambda: all(other.first is not None for other in others))
        watch.steps(5)
        before, began = watch.stats(), len(watch.ended)
        watch.steps(size.quiet)
        quiet = watch.gaps(began)
        taken: list[list[float]] = []
        branched: list[list[float]] = []
        for _ in range(size.rounds):
            began = len(watch.ended) - 1
            _, past = self.take_over(past)
            taken.append(watch.gaps(began))
            watch.steps(5)
            began = len(watch.ended) - 1
            self.branch(first, history)
            branched.append(watch.gaps(began))
            watch.steps(5)
        for other in others:
            watch.stop(other)
        watch.until(lambda: not watch.busy)
        after = watch.stats()
        check(before, after, size.rounds)
        watch.flush()
        longest = {"takeover": [max(each) for each in taken], "branch": [max(each) for each in branched]}
        return {
            "history": history,
            "streams": size.streams,
            "context": size.context,
            "quiet_step_ms": spread(quiet),
            "during_takeover_ms": spread([gap for each in taken for gap in each]),
            "during_branch_ms": spread([gap for each in branched for gap in each]),
            "longest_step_of_a_takeover_ms": spread(longest["takeover"]),
            "longest_step_of_a_branch_ms": spread(longest["branch"]),
            "branch_adds_ms": milli(statistics.median(longest["branch"]) - statistics.median(longest["takeover"])),
            "stalls": after.stalls - before.stalls,
        }


def check(before: EngineStats, after: EngineStats, turns: int) -> None:
    """So many turns took their past over and as many branched. Raises AssertionError."""
    taken, matched = after.takeovers - before.takeovers, after.matches - before.matches
    assert taken == matched == turns, f"{taken} turns took over and {matched} branched, instead of {turns} each"


def main() -> None:
    """Each history alone, then the longest among others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder with config.json and a tokenizer")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, the longest history only")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_turn.json")
    options = parser.parse_args()
    size = SMALL if options.device == "cpu" else QUICK if options.quick else LARGE
    sys.setswitchinterval(SWITCH_INTERVAL)
    kept = Kept(options.out)
    say("loading")
    with Bench(
        options.model,
        device=options.device,
        max_running=16,
        step_tokens=size.step_tokens,
        random_weights=not has_weights(options.model),
    ) as bench:
        measure(bench, size, kept)
        bench.engine.audit()


def measure(bench: Bench, size: Size, kept: Kept) -> None:
    """A row for each history, kept as soon as it is there, then the others' steps."""
    turns = Turns(bench, size)
    kept.put("wanted", WANTED)
    alone: list[dict[str, Any]] = []
    for history in size.histories:
        alone.append(turns.alone(history))
        kept.put("alone", alone)
        say(str(alone[-1]))
    others = turns.among_others(size.histories[-1])
    kept.put("among_others", [others])
    say(str(others))


if __name__ == "__main__":
    main()
