"""What a load's turns say: rates, percentiles, shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chatserve.bench.crew import Performance
from chatserve.bench.outcome import Outcome
from chatserve.bench.statistics import percentile
from chatserve.bench.summary import summary
from loadtest.scenarios import SCENARIOS

SHOWN_FAILURES = 20


def figures(name: str, done: Performance) -> dict[str, Any]:
    """Of one scenario. Times in ms, as [p50, p90, p99] where there are three, wall time in seconds.

    An answer without any text counts from its first event. The rates count from the first request to the last end mark.
    """
    scenario, turns = SCENARIOS[name], [turn for turn in done.outcomes if turn.whole]
    failed = [(turn, turn.failure) for turn in done.outcomes if turn.failure]
    shown: dict[str, Any] = {
        "scenario": name,
        "clients": scenario.clients,
        "turns": len(turns),
        "turns_wanted": scenario.conversations * scenario.turns,
        "errors": len(failed),
        "failures": [
            f"conversation {turn.conversation}, turn {turn.turn}: {failure.kind}: {failure.told}"
            for turn, failure in failed[:SHOWN_FAILURES]
        ],
        "client_cpu_s": [round(cost.cpu, 2) for cost in done.costs],
    }
    if not turns:
        return shown
    found = summary(turns)
    tpots = [turn.tpot for turn in turns if turn.tpot is not None]
    return shown | {
        "wall_s": round(found.wall, 3),
        "out_tok_s": round(found.output_rate, 1),
        "req_s": round(found.turns_rate, 2),
        "in_tok_s": round(found.input_rate, 1),
        "ttft_first_ms": three([ttft(turn) for turn in turns if turn.turn == 0]),
        "ttft_later_ms": three([ttft(turn) for turn in turns if turn.turn > 0]),
        "ttft_mean_ms": mean_ms([ttft(turn) for turn in turns]),
        "tpot_ms": three(tpots),
        "tpot_mean_ms": mean_ms(tpots),
        "e2e_ms": three([turn.e2e for turn in turns]),
        "e2e_mean_ms": mean_ms([turn.e2e for turn in turns]),
        "largest_gap_ms": three([turn.largest_gap for turn in turns]),
        "prompt_mean": round(found.input_rate * found.wall / len(turns), 1),
        "answer_mean": round(found.output_rate * found.wall / len(turns), 2),
        "cached_share": None if found.cached_share is None else round(found.cached_share, 4),
        "events_mean": round(sum(turn.events for turn in turns) / len(turns), 1),
        "answers_without_text": found.without_text,
    }


def ttft(turn: Outcome) -> float:
    """To the first text; where no event had any, to the first event."""
    first = turn.opened if turn.first is None else turn.first
    return (turn.ended if first is None else first) - turn.begin


def three(seconds: Sequence[float]) -> list[float | None]:
    """The 50th, 90th and 99th percentile in ms."""
    return [None if (value := percentile(seconds, each)) is None else round(value * 1e3, 2) for each in (50, 90, 99)]


def mean_ms(seconds: Sequence[float]) -> float | None:
    return round(sum(seconds) / len(seconds) * 1e3, 2) if seconds else None


COLUMNS = (
    f"{'':3} {'clients':>7} {'turns':>6} {'errors':>6} {'wall s':>7} {'tok/s':>8} {'req/s':>7} | "
    f"{'TTFT first 50/90/99 ms':24} | {'later 50/90/99 ms':24} | {'TPOT 50/99 ms':15} | {'reused':>7} | client CPU s"
)


def line(shown: dict[str, Any]) -> str:
    """One scenario below COLUMNS."""

    def some(key: str, *which: int) -> str:
        values = shown.get(key) or [None] * 3
        return "/".join("-" if values[each] is None else f"{values[each]:.1f}" for each in which)

    return (
        f"{shown['scenario']:3} {shown['clients']:7} {shown['turns']:6} {shown['errors']:6} "
        f"{shown.get('wall_s', 0):7.2f} {shown.get('out_tok_s', 0):8.1f} {shown.get('req_s', 0):7.2f} | "
        f"{some('ttft_first_ms', 0, 1, 2):24} | {some('ttft_later_ms', 0, 1, 2):24} | {some('tpot_ms', 0, 2):15} | "
        f"{shown.get('cached_share') or 0:7.3f} | {max(shown['client_cpu_s'], default=0):.1f}"
    )
