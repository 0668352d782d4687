"""What it costs to watch the memory: one picture of the rTree, and the engine's steps while pictures are taken.

python -m loadtest.picture
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from itertools import count, pairwise
from typing import Any

import numpy as np

from chatserve.engine.engine import Engine
from chatserve.engine.messages import Generate
from chatserve.engine.process import SWITCH_INTERVAL
from chatserve.engine.settings import EngineSettings
from chatserve.engine.telling import tell_picture
from chatserve.model.sampling import SamplingParams
from loadtest.engine_process import null_engine
from loadtest.null_runner import null_spec
from loadtest.report import keep, options

MOST_NODES = 500
SIZES = (100, 1_000, 7_000)
"""Conversations; with what they share, 10,000 nodes at the end."""
VOCABULARY = 49_152
RUNNING = 32
STEPS = 200.0
"""A second, of a model that computes nothing: 5 ms each, as a small model's on a GPU."""
RATES = (0.0, 2.0, 20.0)
"""Pictures a second: nobody watches, one tenant's watchers, ten tenants'."""
ROUNDS, ROUND_SECONDS = 6, 2.0


class Bench:
    """An engine around a model that computes nothing, driven as its process drives it."""

    def __init__(self) -> None:
        self._woken = threading.Event()
        settings = EngineSettings(model="null", max_running=RUNNING, kv_bytes=1 << 29, chunk_tokens=64)
        self.engine, _ = null_engine(null_spec(VOCABULARY), [1], STEPS, settings, self._woken.set)
        self._random = np.random.default_rng(3)
        self._names = count()
        self._stem = self.words(100)
        self.running = set[str]()

    def words(self, length: int) -> np.ndarray:
        return self._random.integers(0, VOCABULARY, length, dtype=np.int32)

    def ask(self, prompt: np.ndarray, tokens: int, label: str) -> None:
        name = str(next(self._names))
        params = SamplingParams(max_tokens=tokens)
        self.engine.add(Generate(id=name, prompt=prompt.astype("<i4").tobytes(), params=params, label=label))
        self.running.add(name)

    def turn(self) -> None:
        """Wait until something happens, and see to it."""
        self._woken.wait(1)
        self._woken.clear()
        self.running -= {delta.id for delta in self.engine.advance() if delta.finish is not None}

    def record(self, conversations: Iterator[int], until: int) -> None:
        """More conversations, every third a branch of the one before it."""
        past = self._stem
        for number in conversations:
            prompt = np.append(past[: 105 + number % 20] if number % 3 == 2 else self._stem, self.words(60))
            past = prompt
            self.ask(prompt, 1, f"conversation {number}")
            while len(self.running) >= 4 * RUNNING:
                self.turn()
            if number + 1 == until:
                break
        while self.running:
            self.turn()

    def picture(self) -> Future[Any]:
        return self.engine.picture("", most=MOST_NODES, focus=())


def one_picture(bench: Bench) -> dict[str, float]:
    """Milliseconds from the question to the answer of an engine that does nothing else, and of a processor's time."""
    taken, used, told = [], [], []
    for _ in range(30):
        began, worked = time.perf_counter(), time.process_time()
        seen = bench.picture().result()
        taken.append(time.perf_counter() - began)
        used.append(time.process_time() - worked)
        began = time.perf_counter()
        tell_picture(seen, bench.engine.stats(seen.stats))
        told.append(time.perf_counter() - began)
    return {
        "nodes": bench.engine.stats().recorded_nodes,
        "picture_ms_median": ms(statistics.median(taken)),
        "picture_ms_worst": ms(max(taken)),
        "picture_cpu_ms_median": ms(statistics.median(used)),
        "telling_ms_median": ms(statistics.median(told)),
    }


def steps(bench: Bench, rate: float, seconds: float) -> list[float]:
    """Times from step to step of running answers, while so many pictures a second are taken."""
    ends, step = list[float](), bench.engine.counters.steps
    due, until = time.perf_counter(), time.perf_counter() + seconds
    pending = list[Future[Any]]()
    while time.perf_counter() < until:
        while len(bench.running) < RUNNING:
            bench.ask(bench.words(100), 2_000, "running")
        bench.turn()
        now = time.perf_counter()
        if bench.engine.counters.steps > step:
            step = bench.engine.counters.steps
            ends.append(now)
        if rate and now >= due:
            due = now + 1 / rate
            pending.append(bench.picture())
        for seen in [each for each in pending if each.done()]:
            pending.remove(seen)
            tell_picture(seen.result(), bench.engine.stats(seen.result().stats))
    return [after - before for before, after in pairwise(ends)]


def watched(bench: Bench) -> list[dict[str, Any]]:
    """The same steps, watched at each rate in turn, again and again."""
    times: dict[float, list[float]] = {rate: [] for rate in RATES}
    steps(bench, 0.0, ROUND_SECONDS)
    for _ in range(ROUNDS):
        for rate in RATES:
            times[rate] += steps(bench, rate, ROUND_SECONDS)
    return [
        {
            "pictures_a_second": rate,
            "steps": len(each),
            "step_ms_mean": ms(statistics.mean(each)),
            "step_ms_p50": ms(statistics.median(each)),
            "step_ms_p99": ms(statistics.quantiles(each, n=100)[-1]),
        }
        for rate, each in times.items()
    ]


def ms(seconds: float) -> float:
    return round(1e3 * seconds, 2)


def stop(engine: Engine, running: set[str]) -> None:
    for name in running:
        engine.stop(name, None)
    while engine.busy:
        engine.advance()
        time.sleep(0.001)
    engine.audit()
    engine.close()


def main() -> None:
    """A picture at every size, then steps beside the largest tree."""
    chosen = options(__doc__, "picture").parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL)
    bench, conversations = Bench(), iter(range(max(SIZES)))
    pictures = []
    for size in SIZES:
        bench.record(conversations, size)
        pictures.append(one_picture(bench))
    beside = watched(bench)
    stalls = bench.engine.stats().stalls
    stop(bench.engine, bench.running)
    keep(chosen.out, {"pictures": pictures, "steps": beside, "stalls": stalls})


if __name__ == "__main__":
    main()
