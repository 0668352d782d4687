"""An engine's loop, turn by turn, watched: when each answer's first token came, when each step ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

import numpy as np

from chatserve.bench.statistics import percentile
from chatserve.engine.messages import EngineStats, Generate
from chatserve.model.sampling import SamplingParams
from loadtest.in_process import Bench

SILENT_SECONDS = 60.0


@dataclass(slots=True)
class Ask:
    """One request, and what has come of it. Seconds on this process's clock."""

    id: str
    asked: float
    first: float | None = None
    tokens: list[int] = field(default_factory=list)
    over: bool = False

    @property
    def ttft(self) -> float:
        """Engine time: from the request's arrival at the engine to its first token."""
        assert self.first is not None
        return self.first - self.asked


class RandomTokens:
    """Prompts that mean nothing, the same ones for a seed."""

    def __init__(self, vocabulary: int, seed: int = 1) -> None:
        self._vocabulary = vocabulary
        self._random = np.random.default_rng(seed)

    def draw(self, count: int) -> list[int]:
        return [int(each) for each in self._random.integers(100, self._vocabulary, count)]


def milli(seconds: float) -> float:
    return round(seconds * 1e3, 3)


def spread(seconds: Sequence[float]) -> list[float]:
    """The 50th and 99th percentile and the most, in ms."""
    return [milli(percentile(seconds, each) or 0.0) for each in (50, 99, 100)]


class EngineWatch:
    """The bench's engine, advanced by hand."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._asks: dict[str, Ask] = {}
        self._numbers = count()
        self._steps = bench.engine.counters.steps
        self.ended: list[float] = []
        """When each step was seen to have ended; steps seen together share a time."""

    def ask(self, prompt: Sequence[int], answer_tokens: int, *, reuse: bool = True) -> Ask:
        """Greedy, exactly so many tokens."""
        name = str(next(self._numbers))
        params = SamplingParams(max_tokens=answer_tokens, temperature=0.0, ignore_eos=True)
        request = Generate(id=name, prompt=np.array(prompt, dtype="<i4").tobytes(), params=params, reuse=reuse)
        ask = self._asks[name] = Ask(name, time.perf_counter())
        self._bench.engine.add(request)
        return ask

    def stop(self, ask: Ask) -> None:
        """End it now."""
        self._bench.engine.stop(ask.id, None)

    def until(self, true: Callable[[], bool]) -> None:
        """Advance until something is true. Raises AssertionError when a request fails, or nothing happens for long."""
        engine, woken = self._bench.engine, self._bench.woken
        while not true():
            woken.clear()
            deltas = engine.advance()
            now = time.perf_counter()
            for delta in deltas:
                assert delta.error is None, delta.error
                ask = self._asks[delta.id]
                ask.tokens += delta.tokens
                if delta.tokens and ask.first is None:
                    ask.first = now
                ask.over = ask.over or delta.finish is not None
            self.ended += [now] * (engine.counters.steps - self._steps)
            self._steps = engine.counters.steps
            if not true():
                assert engine.busy, "the engine has nothing to do, and what was waited for has not come"
                assert woken.wait(SILENT_SECONDS), f"nothing happened for {SILENT_SECONDS:g} s"

    def answered(self, prompt: Sequence[int], answer_tokens: int, *, reuse: bool = True) -> Ask:
        """Ask and wait for the end."""
        ask = self.ask(prompt, answer_tokens, reuse=reuse)
        self.until(lambda: ask.over)
        return ask

    def steps(self, more: int) -> None:
        """So many steps more."""
        target = len(self.ended) + more
        self.until(lambda: len(self.ended) >= target)

    def gaps(self, since: int) -> list[float]:
        """Seconds between the ends of two steps, from step `since` on."""
        return [later - earlier for earlier, later in pairwise(self.ended[since:])]

    @property
    def busy(self) -> bool:
        """Whether anything runs."""
        return self._bench.engine.busy

    def stats(self) -> EngineStats:
        return self._bench.engine.stats()

    def flush(self) -> None:
        """Forget every prefix."""
        self._bench.engine.flush().result()
