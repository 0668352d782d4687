"""What is measured of turns, in vLLM's names and meanings where it has them, over all processes of a server."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from chatserve.engine.messages import EngineStats
from chatserve.server.engine_metrics import EngineCollector
from chatserve.server.tally import Tally
from chatserve.server.wire import FinishReason

_FIRST_TOKEN = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
)
_BETWEEN = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0)
_WHOLE = (0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0, 120.0, 240.0, 480.0)


_MODEL = ("model_name",)
_ENDS: tuple[FinishReason | Literal["abort"], ...] = ("stop", "length", "abort")


class Times:
    """A histogram of seconds: how many fell between two bounds, then how many beyond the last, then their sum."""

    def __init__(self, tally: Tally, name: str, meaning: str, bounds: tuple[float, ...]) -> None:
        self._tally = tally
        self._name = name
        self._meaning = meaning
        self._bounds = bounds
        self._first = tally.place(len(bounds) + 2)

    def observe(self, seconds: float) -> None:
        own, first = self._tally.own, self._first
        own[first + bisect_left(self._bounds, seconds)] += 1
        own[first + len(self._bounds) + 1] += seconds

    def family(self, model_name: str) -> Metric:
        """As all processes have counted."""
        *counts, total = self._tally.sums(self._first, len(self._bounds) + 2)
        bounds = (*map(floatToGoString, self._bounds), "+Inf")
        metric = HistogramMetricFamily(self._name, self._meaning, labels=_MODEL)
        metric.add_metric((model_name,), list(zip(bounds, accumulate(counts), strict=True)), total)
        return metric


class Metrics(Collector):
    """What the processes of one server have counted. Times are seen from the server: from a request's arrival to its
    tokens' arrival.
    """

    def __init__(self, model_name: str, tally: Tally) -> None:
        self._model_name = model_name
        self._tally = tally
        self.first_token = Times(tally, "vllm:time_to_first_token_seconds", "Time to first token.", _FIRST_TOKEN)
        self.between = Times(tally, "vllm:inter_token_latency_seconds", "Time from one token to the next.", _BETWEEN)
        self.whole = Times(
            tally, "vllm:e2e_request_latency_seconds", "Time from a request's arrival to its last token.", _WHOLE
        )
        self._ended = tally.place(len(_ENDS))

    def count_end(self, reason: FinishReason | Literal["abort"]) -> None:
        self._tally.own[self._ended + _ENDS.index(reason)] += 1

    def collect(self) -> Iterator[Metric]:
        for times in (self.first_token, self.between, self.whole):
            yield times.family(self._model_name)
        ended = CounterMetricFamily(
            "vllm:request_success",
            "Ended requests by reason: stop, length or abort.",
            labels=("model_name", "finished_reason"),
        )
        for reason, count in zip(_ENDS, self._tally.sums(self._ended, len(_ENDS)), strict=True):
            if count:
                ended.add_metric((self._model_name, reason), count)
        yield ended

    def render(self, stats: EngineStats | None) -> bytes:
        """Prometheus' text format. Without an engine's figures only the server's own are in it."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        if stats is not None:
            registry.register(EngineCollector(stats, self._model_name))
        return generate_latest(registry)


class TurnTimes:
    """The clock of one turn, from its request's arrival on."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._began = time.perf_counter()
        self._last: float | None = None

    def note(self, tokens: int) -> None:
        """Some tokens have come just now."""
        if not tokens:
            return
        now = time.perf_counter()
        if self._last is None:
            self._metrics.first_token.observe(now - self._began)
        else:
            self._metrics.between.observe((now - self._last) / tokens)
        self._last = now

    def end(self, reason: FinishReason | Literal["abort"]) -> None:
        self._metrics.whole.observe(time.perf_counter() - self._began)
        self._metrics.count_end(reason)
