"""Many turns as a few figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from chatserve.bench.outcome import Outcome
from chatserve.bench.slo import Slo
from chatserve.bench.statistics import of_sorted

PERCENTS: Final = (50, 90, 99)


class Quantiles(msgspec.Struct, frozen=True):
    """Milliseconds. count: of the values they are of."""

    p50: float
    p90: float
    p99: float
    mean: float
    most: float
    count: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Quantiles | None:
        """None of nothing."""
        if not seconds:
            return None
        ordered = sorted(seconds)
        p50, p90, p99 = (1e3 * of_sorted(ordered, each) for each in PERCENTS)
        return cls(p50, p90, p99, 1e3 * sum(ordered) / len(ordered), 1e3 * ordered[-1], len(ordered))


LATENCIES: Final[Mapping[str, Callable[[Outcome], Sequence[float]]]] = {
    "ttft_first": lambda turn: _some(turn.ttft) if turn.turn == 0 else (),
    "ttft_later": lambda turn: _some(turn.ttft) if turn.turn > 0 else (),
    "itl": lambda turn: turn.gaps,
    "tpot": lambda turn: _some(turn.tpot),
    "e2e": lambda turn: (turn.e2e,),
}
"""What a whole turn adds to each of them, in seconds."""

LATENCY_NAMES: Final[Mapping[str, str]] = {
    "ttft_first": "TTFT, first turns",
    "ttft_later": "TTFT, later turns",
    "itl": "ITL",
    "tpot": "TPOT",
    "e2e": "E2E",
}


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """turns: whole answers.  failures: by kind.  cancelled: by the client, on purpose.  warm: not counted.

    wall: seconds from the first counted send to the last end.  rates: a second.
    steady_output_rate: output tokens a second between the first counted send and the last.
    latencies: by the names of LATENCIES; without those that nothing was measured of.
    goodput: turns a second that met the limits, and `good_share` of those asked; None without limits.
    late: of sends, what the client itself lost; in an open loop it is inside the latencies.
    without_text: whole answers of which no event had text.
    """

    turns: int
    failures: Mapping[str, int]
    cancelled: int
    warm: int
    wall: float
    turns_rate: float
    output_rate: float
    steady_output_rate: float
    input_rate: float
    latencies: Mapping[str, Quantiles]
    cached_share: float | None
    tokens_per_event: float | None
    goodput: float | None
    good_share: float | None
    late: Quantiles | None
    without_text: int

    @property
    def failed(self) -> int:
        return sum(self.failures.values())


def summary(outcomes: Sequence[Outcome], slo: Slo | None = None) -> Summary:
    """Of one load."""
    return over_loads([outcomes], slo)


def over_loads(loads: Sequence[Sequence[Outcome]], slo: Slo | None = None) -> Summary:
    """Of several, each with moments of its own: their times add up."""
    outcomes = [turn for load in loads for turn in load]
    counted = [turn for turn in outcomes if not turn.warm]
    seconds = sum(span([turn for turn in load if not turn.warm]) for load in loads)
    whole = [turn for turn in counted if turn.whole]
    completion = sum(turn.usage.completion for turn in whole if turn.usage)
    good = sum(slo.met(turn) for turn in whole) if slo else None
    asked = sum(not turn.cancelled for turn in counted)
    events = sum(turn.events for turn in whole)
    return Summary(
        turns=len(whole),
        failures=dict(Counter(turn.failure.kind for turn in counted if turn.failure).most_common()),
        cancelled=sum(turn.cancelled for turn in counted),
        warm=len(outcomes) - len(counted),
        wall=seconds,
        turns_rate=_rate(len(whole), seconds),
        output_rate=_rate(completion, seconds),
        steady_output_rate=(completion / events if events else 0.0) * steady_events_rate(loads),
        input_rate=_rate(sum(turn.usage.prompt for turn in whole if turn.usage), seconds),
        latencies=_latencies(whole),
        cached_share=_cached_share(whole),
        tokens_per_event=completion / events if events else None,
        goodput=None if good is None else _rate(good, seconds),
        good_share=None if good is None or not asked else good / asked,
        late=Quantiles.of([turn.late for turn in counted if turn.sent is not None]),
        without_text=sum(turn.first is None for turn in whole),
    )


def span(turns: Sequence[Outcome]) -> float:
    """Seconds from the first send to the last end; 0 of nothing."""
    return max(turn.ended for turn in turns) - min(turn.begin for turn in turns) if turns else 0.0


def steady_events_rate(loads: Sequence[Sequence[Outcome]]) -> float:
    """Events with text a second between the first counted send and the last, whatever became of their turns."""
    found = [_steady(load) for load in loads]
    return _rate(sum(events for events, _ in found), sum(seconds for _, seconds in found))


def _steady(load: Sequence[Outcome]) -> tuple[int, float]:
    sends = [turn.begin for turn in load if not turn.warm]
    begin, end = min(sends, default=0.0), max(sends, default=0.0)
    moments = (moment for turn in load if turn.first is not None for moment in accumulate((turn.first, *turn.gaps)))
    return sum(begin <= moment <= end for moment in moments), end - begin


def _latencies(whole: Sequence[Outcome]) -> dict[str, Quantiles]:
    found = {name: Quantiles.of([value for turn in whole for value in of(turn)]) for name, of in LATENCIES.items()}
    return {name: quantiles for name, quantiles in found.items() if quantiles is not None}


def _cached_share(whole: Sequence[Outcome]) -> float | None:
    """Of the turns whose usage says so; None where none does."""
    said = [turn.usage for turn in whole if turn.usage is not None and turn.usage.cached is not None]
    prompt = sum(usage.prompt for usage in said)
    return sum(usage.cached or 0 for usage in said) / prompt if prompt else None


def _rate(count: float, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _some(value: float | None) -> tuple[float, ...]:
    return () if value is None else (value,)
