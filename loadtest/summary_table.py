"""A summary of many turns, as a table to be read and as figures to be kept."""

from __future__ import annotations

from typing import Any

import msgspec

from chatserve.bench.summary import LATENCY_NAMES, Summary
from loadtest.markdown import table


def kept(summary: Summary) -> dict[str, Any]:
    """Rounded to what a clock can tell."""
    found: dict[str, Any] = msgspec.to_builtins(summary)
    return {name: _rounded(value) for name, value in found.items()}


def shown(summary: Summary) -> str:
    """Markdown: latencies in ms, then rates."""
    latencies = [
        {
            "ms": LATENCY_NAMES[name],
            "p50": each.p50,
            "p90": each.p90,
            "p99": each.p99,
            "mean": each.mean,
            "n": each.count,
        }
        for name, each in summary.latencies.items()
    ]
    rates = {
        "turns": summary.turns,
        "failed": summary.failed,
        "left": summary.cancelled,
        "turns/s": summary.turns_rate,
        "output tokens/s": summary.output_rate,
        "cached share": summary.cached_share,
        "goodput, turns/s": summary.goodput,
    }
    failures = [{"failure": kind, "turns": count} for kind, count in summary.failures.items()]
    return "\n".join(table(rows) for rows in (latencies, [rates], failures) if rows)


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, 4)
        case dict():
            return {key: _rounded(each) for key, each in value.items()}
    return value
