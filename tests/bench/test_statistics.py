"""Percentiles, intervals, limits, and what many turns come to."""

from __future__ import annotations

import statistics as truth

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatserve.bench.definitions import DEFINITIONS, printed
from chatserve.bench.outcome import CUT, Failure, Outcome, Usage
from chatserve.bench.slo import BadSlo, Slo
from chatserve.bench.statistics import percentile, ratio_of_medians
from chatserve.bench.summary import Quantiles, summary

numbers = st.floats(0, 1e6)


def turn(
    conversation: int = 0,
    turn: int = 0,
    begin: float = 0.0,
    ttft: float = 0.5,
    tokens: int = 3,
    *,
    failure: Failure | None = None,
    cancelled: bool = False,
    warm: bool = False,
) -> Outcome:
    """Tokens a tenth of a second apart."""
    whole = failure is None and not cancelled
    return Outcome(
        conversation=conversation,
        turn=turn,
        due=begin,
        begin=begin,
        sent=begin,
        first=begin + ttft,
        ended=begin + ttft + 0.1 * (tokens - 1),
        gaps=(0.1,) * (tokens - 1),
        usage=Usage(40, tokens, 30) if whole else None,
        failure=failure,
        cancelled=cancelled,
        warm=warm,
    )


@given(st.lists(numbers, min_size=2))
@settings(max_examples=50, deadline=None)
def test_percentiles_are_those_of_the_standard_library(values: list[float]) -> None:
    cuts = truth.quantiles(values, n=100, method="inclusive")
    assert percentile(values, 50) == pytest.approx(truth.median(values))
    assert percentile(values, 90) == pytest.approx(cuts[89])
    assert percentile(values, 99) == pytest.approx(cuts[98])
    assert (percentile(values, 0), percentile(values, 100)) == (min(values), max(values))


def test_nothing_has_no_percentile() -> None:
    assert percentile([], 50) is None
    assert Quantiles.of([]) is None


def test_a_ratio_and_its_interval_hold_the_truth() -> None:
    groups = [((1.0 + 0.01 * place, 1.1), (2.0 + 0.02 * place, 2.2)) for place in range(20)]
    found = ratio_of_medians(groups, seed=1)
    assert found is not None
    assert found.ratio == pytest.approx(2.0)
    assert found.low <= found.ratio <= found.high
    assert found.sure
    assert found == ratio_of_medians(groups, seed=1), "a seed gives the same interval"


def test_two_that_are_alike_are_not_told_apart() -> None:
    groups = [((float(place),), (float(40 - place),)) for place in range(1, 40)]
    found = ratio_of_medians(groups, seed=1)
    assert found is not None
    assert not found.sure


@given(st.lists(st.tuples(st.lists(numbers, max_size=4), st.lists(numbers, max_size=4)), max_size=5))
@settings(max_examples=50, deadline=None)
def test_a_ratio_of_anything_is_a_ratio_or_none(groups: list[tuple[list[float], list[float]]]) -> None:
    found = ratio_of_medians(groups, seed=1, draws=20)
    assert found is None or found.low <= found.high


def test_limits_are_read_and_met() -> None:
    slo = Slo.parse("ttft=600ms, tpot=0.2s")
    assert slo == Slo(ttft=0.6, tpot=0.2)
    assert str(slo) == "ttft <= 600 ms, tpot <= 200 ms"
    assert slo.met(turn(ttft=0.55))
    assert not slo.met(turn(ttft=0.65))
    assert not slo.met(turn(failure=Failure(CUT, "")))
    assert not Slo(e2e=0.1).met(turn())
    assert not Slo(ttft=9.0).met(Outcome(conversation=0, turn=0, due=0, begin=0, ended=1, usage=Usage(1, 1, None)))


@pytest.mark.parametrize("text", ["", "ttft", "ttft=500", "itl=3ms", "ttft=-3ms", "ttft=3ms,"])
def test_what_is_no_limit_is_told_how_to_be_one(text: str) -> None:
    with pytest.raises(BadSlo, match="ttft=500ms"):
        Slo.parse(text)


def test_figures_are_of_whole_counted_turns_only() -> None:
    found = summary(
        [
            turn(warm=True, ttft=50.0),
            turn(begin=1.0),
            turn(turn=1, begin=2.0, ttft=0.1),
            turn(turn=2, begin=3.0, ttft=9.0, failure=Failure(CUT, "")),
            turn(turn=3, begin=4.0, ttft=7.8, cancelled=True),
        ],
        Slo(ttft=0.2),
    )
    assert (found.turns, found.failures, found.cancelled, found.warm) == (2, {CUT: 1}, 1, 1)
    assert found.wall == pytest.approx(11.2)
    assert found.turns_rate == pytest.approx(2 / 11.2)
    assert found.output_rate == pytest.approx(6 / 11.2)
    assert found.latencies["ttft_first"].p50 == pytest.approx(500)
    assert found.latencies["ttft_later"].p50 == pytest.approx(100)
    assert found.latencies["tpot"].p99 == pytest.approx(100)
    assert found.latencies["itl"].count == 4
    assert (found.cached_share, found.tokens_per_event) == (30 / 40, 1.0)
    assert found.goodput == pytest.approx(1 / 11.2)
    assert found.good_share == pytest.approx(1 / 3), "a failure is asked, a turn that the client left is not"


def test_the_steady_rate_leaves_the_end_out() -> None:
    """Two turns of 3 tokens in the first second, then one alone that takes nine."""
    turns = [turn(begin=0.0, ttft=0.1), turn(begin=0.0, ttft=0.1), turn(begin=1.0, ttft=0.1, tokens=90)]
    found = summary(turns)
    assert found.steady_output_rate == pytest.approx(6.0)
    assert found.output_rate == pytest.approx(96 / 10)
    assert summary([turn()]).steady_output_rate == 0.0


def test_nothing_at_all_has_figures_too() -> None:
    found = summary([], Slo(ttft=1.0))
    assert (found.turns, found.wall, found.goodput, found.good_share, found.latencies) == (0, 0.0, 0.0, None, {})


def test_every_number_has_its_definition() -> None:
    shown = printed()
    assert all(f"{name}: " in shown for name in DEFINITIONS)
    assert {"send", "TTFT", "ITL", "TPOT", "E2E", "failure", "cached share", "goodput", "percentiles"} <= set(
        DEFINITIONS
    )
    assert max(map(len, shown.splitlines())) <= 110
