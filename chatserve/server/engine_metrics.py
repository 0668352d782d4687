"""An engine's figures as Prometheus metrics: one snapshot, made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from chatserve.engine.messages import EngineStats

# vLLM's names, then ours; each with the field it shows and what it means.
_GAUGES = (
    ("vllm:num_requests_running", "running", "Requests in the running batch."),
    ("vllm:num_requests_waiting", "waiting", "Requests that wait to run."),
    ("chatserve:kv_physical_bytes", "physical_bytes", "KV memory that exists: free and held."),
    ("chatserve:kv_free_bytes", "free_bytes", "KV memory in chunks that hold nothing."),
    ("chatserve:kv_private_bytes", "private_bytes", "KV memory in chunks with one owner."),
    ("chatserve:kv_shared_bytes", "shared_bytes", "KV memory in chunks with several owners, each counted once."),
    ("chatserve:kv_mapped_bytes", "mapped_bytes", "KV memory as mapped: a chunk counts once for every address."),
    ("chatserve:kv_limit_bytes", "limit_bytes", "KV memory that may exist."),
    ("chatserve:recorded_tokens", "recorded_tokens", "Tokens of recorded prefixes."),
    ("chatserve:recorded_nodes", "recorded_nodes", "Nodes of the tree of recorded prefixes."),
    ("chatserve:slots", "slots", "Address ranges, each of one whole sequence."),
    ("chatserve:slots_in_use", "slots_in_use", "Slots on which a request runs."),
    ("chatserve:slots_warm", "slots_warm", "Slots still mapped for a recorded prefix."),
)
_COUNTERS = (
    ("vllm:prompt_tokens", "prompt_tokens", "Prompt tokens of admitted requests."),
    ("vllm:generation_tokens", "generated_tokens", "Generated tokens."),
    ("vllm:prefix_cache_queries", "prompt_tokens", "Prompt tokens looked up among recorded prefixes."),
    ("vllm:prefix_cache_hits", "cached_tokens", "Prompt tokens found there, which were not computed."),
    ("vllm:num_preemptions", "preemptions", "Requests preempted."),
    ("chatserve:engine_steps", "steps", "Steps of the engine."),
    ("chatserve:computed_tokens", "computed_tokens", "Tokens whose KV was computed."),
    ("chatserve:stalls", "stalls", "Steps of a running request that waited for a mapping."),
    ("chatserve:takeovers", "takeovers", "Turns that took over a warm slot without a driver call."),
    ("chatserve:prefix_matches", "matches", "Turns that mapped a recorded prefix at a fresh slot."),
    ("chatserve:creates", "creates", "Turns that began with an empty slot."),
    ("chatserve:tail_copies", "copies", "Chunks whose used rows were copied for a branch."),
    ("chatserve:evicted_chunks", "evicted_chunks", "Chunks taken from recorded prefixes."),
    ("chatserve:given_back_bytes", "given_back_bytes", "KV memory that went back to the device."),
    ("chatserve:driver_calls", "driver_calls", "Calls of the memory-mapping driver."),
)
_ORIGINS = ("taken_over", "mapped", "copied", "promoted")
_REASONS = tuple(name.removeprefix("stops_") for name in EngineStats.__struct_fields__ if name.startswith("stops_"))


@dataclass(frozen=True)
class EngineCollector(Collector):
    stats: EngineStats
    model_name: str

    def collect(self) -> Iterator[Metric]:
        for name, field, meaning in _GAUGES:
            yield self._gauge(name, meaning, getattr(self.stats, field))
        held = self.stats.private_bytes + self.stats.shared_bytes
        yield self._gauge(
            "vllm:kv_cache_usage_perc",
            "KV memory that holds something, recorded prefixes included, of what may exist; 1 is all.",
            held / self.stats.limit_bytes if self.stats.limit_bytes else 0.0,
        )
        for name, field, meaning in _COUNTERS:
            counter = CounterMetricFamily(name, meaning, labels=("model_name",))
            counter.add_metric((self.model_name,), getattr(self.stats, field))
            yield counter
        yield self._by(
            "chatserve:reused_tokens",
            "Prompt tokens that were not computed, by where they came from.",
            "origin",
            {origin: getattr(self.stats, f"{origin}_tokens") for origin in _ORIGINS},
        )
        yield self._by(
            "chatserve:prefix_stops",
            "Prompts of which less than all but the last token was reused, by why.",
            "reason",
            {reason: getattr(self.stats, f"stops_{reason}") for reason in _REASONS},
        )

    def _by(self, name: str, meaning: str, label: str, counts: Mapping[str, float]) -> Metric:
        counter = CounterMetricFamily(name, meaning, labels=("model_name", label))
        for value, count in counts.items():
            counter.add_metric((self.model_name, value), count)
        return counter

    def _gauge(self, name: str, meaning: str, value: float) -> Metric:
        gauge = GaugeMetricFamily(name, meaning, labels=("model_name",))
        gauge.add_metric((self.model_name,), value)
        return gauge
