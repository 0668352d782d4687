"""What there is to draw of a record: plain points, whoever draws them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from chatserve.bench.outcome import Outcome
from chatserve.bench.record import Record, RunRecord
from chatserve.bench.statistics import of_sorted
from chatserve.bench.summary import LATENCIES, LATENCY_NAMES

Point = tuple[float, float]
STEPS: Final = 200
"""Points of a curve, and stretches of time, at most."""


class Line(msgspec.Struct, frozen=True):
    label: str
    points: Sequence[Point]


class Figure(msgspec.Struct, frozen=True):
    """x, y: names of the axes, with units."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]


def figures(record: Record) -> Iterator[Figure]:
    """Distributions of all runs of a server together, then each run over its time."""
    shares = ("ttft_first", "ttft_later"), ("itl",), ("tpot",), ("e2e",)
    for names in shares:
        found = [line for name in names for line in _distributions(record, name, several=len(names) > 1)]
        if found:
            title = LATENCY_NAMES[names[0]].split(",")[0]
            yield Figure(f"{title}: share of values at or below", f"{title}, ms", "% of values", found)
    for title, y, of in (
        ("Output over time", "events with text a second", _events_over_time),
        ("Turns running", "turns sent and not ended", _running),
        ("TTFT over time", "TTFT p50 of a stretch, ms", _ttft_over_time),
    ):
        found = [Line(_of_run(record, run), points) for run in record.runs if (points := of(run.turns))]
        if found:
            yield Figure(title, "seconds", y, found)


def _distributions(record: Record, name: str, *, several: bool) -> Iterator[Line]:
    for place, server in enumerate(record.servers):
        turns = [turn for run in record.runs if run.server == place for turn in run.turns]
        values = sorted(
            1e3 * value for turn in turns if turn.whole and not turn.warm for value in LATENCIES[name](turn)
        )
        words = [server.url] if len(record.servers) > 1 else []
        words += [LATENCY_NAMES[name]] if several or not words else []
        if values:
            yield Line(", ".join(words), distribution(values))


def distribution(ordered: Sequence[float]) -> list[Point]:
    """(value, % at or below it), as many points as can be told apart."""
    count = min(STEPS, max(2, len(ordered)))
    percents = [100 * place / (count - 1) for place in range(count)]
    return [(of_sorted(ordered, percent), percent) for percent in percents]


def _of_run(record: Record, run: RunRecord) -> str:
    several = len(record.runs) > len(record.servers)
    return record.servers[run.server].url + (f", round {run.round + 1}" if several else "")


def _events_over_time(turns: Sequence[Outcome]) -> list[Point]:
    moments: list[Point] = []
    for turn in turns:
        if turn.first is not None:
            moment = turn.first
            moments.append((moment, 1.0))
            for gap in turn.gaps:
                moment += gap
                moments.append((moment, 1.0))
    stretch = _stretch(turns)
    return [(middle, len(found) / stretch) for middle, found in _stretches(moments, stretch)]


def _ttft_over_time(turns: Sequence[Outcome]) -> list[Point]:
    known = [(turn.begin, 1e3 * turn.ttft) for turn in turns if turn.whole and turn.ttft is not None]
    stretches = _stretches(known, _stretch(turns))
    return [(middle, of_sorted(sorted(found), 50)) for middle, found in stretches if found]


def _running(turns: Sequence[Outcome]) -> list[Point]:
    changes = sorted([(turn.begin, 1) for turn in turns] + [(turn.ended, -1) for turn in turns])
    points, running = [], 0
    for moment, change in changes:
        running += change
        points.append((moment, float(running)))
    every = max(1, len(points) // STEPS)
    return points[::every]


def _stretch(turns: Sequence[Outcome]) -> float:
    """Seconds: long enough that there are not too many."""
    last = max((turn.ended for turn in turns), default=0.0)
    return max(0.5, last / STEPS)


def _stretches(values: Sequence[Point], seconds: float) -> list[tuple[float, list[float]]]:
    """Of (moment, value): (its middle, the values) of each stretch of time from 0 to the last moment."""
    if not values:
        return []
    found: list[list[float]] = [[] for _ in range(int(max(moment for moment, _ in values) / seconds) + 1)]
    for moment, value in values:
        found[max(0, int(moment / seconds))].append(value)
    return [((place + 0.5) * seconds, each) for place, each in enumerate(found)]
