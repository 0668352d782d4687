"""What is measured of turns, in vLLM's names and meanings where it has them; registries belong to their owner."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from chatserve.engine.messages import EngineStats
from chatserve.server.engine_metrics import EngineCollector
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


class Metrics:
    """The counters of one server. Times are seen from the server: from a request's arrival to its tokens' arrival."""

    def __init__(self, model_name: str) -> None:
        self._model_name = model_name
        self._registry = CollectorRegistry()
        label = ("model_name",)
        registry = self._registry
        self.first_token = Histogram(
            "vllm:time_to_first_token_seconds",
            "Time to first token.",
            label,
            registry=registry,
            buckets=_FIRST_TOKEN,
        ).labels(model_name)
        self.between = Histogram(
            "vllm:inter_token_latency_seconds",
            "Time from one token to the next.",
            label,
            registry=registry,
            buckets=_BETWEEN,
        ).labels(model_name)
        self.whole = Histogram(
            "vllm:e2e_request_latency_seconds",
            "Time from a request's arrival to its last token.",
            label,
            registry=registry,
            buckets=_WHOLE,
        ).labels(model_name)
        self._ended = Counter(
            "vllm:request_success",
            "Ended requests by reason: stop, length or abort.",
            ("model_name", "finished_reason"),
            registry=registry,
        )

    def count_end(self, reason: FinishReason | str) -> None:
        self._ended.labels(self._model_name, reason).inc()

    def render(self, stats: EngineStats | None) -> bytes:
        """Prometheus' text format. Without an engine's figures only the server's own are in it."""
        page = generate_latest(self._registry)
        if stats is None:
            return page
        engine = CollectorRegistry(auto_describe=False)
        engine.register(EngineCollector(stats, self._model_name))
        return page + generate_latest(engine)


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

    def end(self, reason: FinishReason | str) -> None:
        self._metrics.whole.observe(time.perf_counter() - self._began)
        self._metrics.count_end(reason)
