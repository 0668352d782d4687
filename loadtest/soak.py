"""Our server at saturation for half an hour, with branches and readers who leave: nothing may fail, leak or be lost.

    python -m loadtest.soak --minutes 30

One API process and the real engine with the demo model. Twice as many users as a step holds, so that somebody always
waits; every second conversation is kept by the server, the others are sent again as text. Resident memory of both
processes is noted all the while. When everybody has left, the engine's books are audited. Exit status 1 if a turn
failed, if the audit found anything, or if memory grew in the last two thirds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec

from chatserve.bench.crew import Performance, perform_all
from chatserve.bench.load import Closed, Limits
from chatserve.bench.plan import ConversationPlan
from chatserve.bench.playing import Run
from chatserve.bench.statistics import median
from chatserve.bench.summary import summary
from chatserve.bench.talks import Manner, Stateful, Stateless, Talk
from chatserve.bench.target import Target
from chatserve.bench.texts import Generated
from chatserve.bench.user import Service
from chatserve.bench.words import WORDS
from chatserve.bench.workload import Held, Share, Spread, Workload
from chatserve.text.tokenizer import Tokenizer
from loadtest.in_process import demo
from loadtest.kept import RESULTS, Kept, say, until
from loadtest.one_worker import Worker, one_worker, resident_bytes

STEP = 8
"""Requests in one step of the engine."""
KV_BYTES, NULL_KV_BYTES = 384 << 20, 1 << 20
"""So little that what was recorded is evicted all the while."""
NULL_STEPS = 200.0
LOOK_SECONDS = 5.0
SETTLE_SECONDS = 60.0
STEADY = 2 / 3
"""Of the time, the last part: memory has to be flat in it."""
FLAT = 0.05
"""How much more its last quarter may hold than its first."""
COUNTERS = ("steps", "generated_tokens", "stalls", "preemptions", "evicted_chunks", "takeovers")
WORKLOAD = Workload(
    turns=Spread(5, 3),
    system=100,
    first=Spread(120, 80),
    later=Spread(40, 30),
    answer=Spread(24, 16),
    branch_rate=0.2,
    cancel_rate=0.2,
    priorities=(Share(0, 3), Share(5, 1)),
)


class BothWays(Service):
    """Every second conversation is kept by the server."""

    def talk(self, plan: ConversationPlan) -> Talk:
        return (Stateful if plan.number % 2 else Stateless)(plan, self.manner)


@dataclass
class Watch:
    """What is seen while the load runs: seconds, resident bytes of the API process and of the engine's."""

    serving: Worker
    samples: list[tuple[float, int, int]] = field(default_factory=list)
    due: float = 0.0

    def look(self, done: Performance) -> None:
        now = time.monotonic()
        if now >= self.due:
            self.due = now + LOOK_SECONDS
            self.samples.append((now, resident_bytes(self.serving.pid), resident_bytes(self.serving.engine)))
            if len(self.samples) % 12 == 1:
                failed = sum(turn.failure is not None for turn in done.outcomes)
                sizes = " and ".join(f"{each / 1e6:.0f} MB" for each in self.samples[-1][1:])
                say(f"{len(done.outcomes)} turns, {failed} failed, {sizes}")

    def growth(self) -> list[float]:
        """Of each process, over the steady part: its last quarter over its first, less one."""
        steady = self.samples[int(len(self.samples) * (1 - STEADY)) :]
        quarter = max(1, len(steady) // 4)
        return [
            median([float(each[place]) for each in steady[-quarter:]])
            / median([float(each[place]) for each in steady[:quarter]])
            - 1
            for place in (1, 2)
        ]


def engine_with(model: str, endpoint: str) -> Sequence[str]:
    """The engine's command."""
    command = [sys.executable, "-m", "loadtest.engine_process", endpoint, "--running", str(STEP)]
    return [*command, "--model", model, "--kv-bytes", str(KV_BYTES)]


def engine_without(model: str, endpoint: str) -> Sequence[str]:
    """The engine's command, for a model that computes nothing."""
    tokenizer = Tokenizer.load(model)
    command = [sys.executable, "-m", "loadtest.engine_process", endpoint, "--running", str(STEP)]
    command += ["--null", str(tokenizer.vocab_size), "--steps", str(NULL_STEPS), "--kv-bytes", str(NULL_KV_BYTES)]
    return [*command, "--tokens", *map(str, tokenizer.encode(" ".join(WORDS[:24])))]


def soak(model: str, engine: Callable[[str], Sequence[str]], minutes: float, seed: int) -> dict[str, Any]:
    """What came of it.  engine: its command, for an endpoint."""
    said: list[dict[str, Any]] = []

    with one_worker(model, engine, ended=lambda printed: said.append(json.loads(printed))) as serving:
        watch = Watch(serving)
        workload = msgspec.structs.replace(WORKLOAD, seed=seed)
        run = Run(
            service=BothWays(Target.parse(serving.url), Manner("bench"), timeout=600.0),
            conversations=Held(workload, Generated()),
            load=Closed(2 * STEP),
            limits=Limits(None, 60 * minutes),
            seed=seed,
        )
        done = perform_all(run, 1, watch.look)
        idle = until(lambda: httpx.get(f"{serving.url}/admin/stats").json()["running"] == 0, SETTLE_SECONDS)
    found = summary(done.outcomes)
    return {
        "minutes": minutes,
        "turns": found.turns,
        "left_by_their_readers": found.cancelled,
        "branches": sum(turn.branch for turn in done.outcomes),
        "failures": dict(Counter(turn.failure.told for turn in done.outcomes if turn.failure)),
        "output_tokens_a_second": round(found.output_rate, 1),
        "cached_share": round(found.cached_share or 0.0, 3),
        "idle_afterwards": idle,
        "audit": said[0]["audit"],
        "engine": {
            name: said[0]["stats"][name] for name in ("steps", "stalls", "preemptions", "evicted_chunks", "takeovers")
        },
        "growth_of_api_and_engine": [round(each, 4) for each in watch.growth()],
        "samples_s_api_engine_bytes": [
            (round(seconds - watch.samples[0][0], 1), api, engine_) for seconds, api, engine_ in watch.samples
        ],
    }


def main() -> int:
    """Exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--null", action="store_true", help="a model that computes nothing: many more turns")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "soak.json")
    options = parser.parse_args()
    model = str(demo())
    found = soak(model, partial(engine_without if options.null else engine_with, model), options.minutes, options.seed)
    Kept(options.out).put("soak", found)
    wrong = [f"a turn failed: {told}" for told in found["failures"]]
    wrong += [f"the audit found: {found['audit']}"] if found["audit"] else []
    wrong += [] if found["idle_afterwards"] else ["something still runs though everybody has left"]
    wrong += [f"memory grew by {each:.1%}" for each in found["growth_of_api_and_engine"] if each > FLAT]
    say(json.dumps({name: each for name, each in found.items() if not name.startswith("samples")}, indent=2))
    for each in wrong:
        say(each)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
