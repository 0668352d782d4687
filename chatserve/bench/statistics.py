"""Percentiles, and how sure one may be of a ratio."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

import msgspec

INSTANT: Final = 1e-9
"""Seconds: less is no time that anything could be a multiple of."""


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Interpolated between neighbours; None of nothing. percent: 0 to 100."""
    return of_sorted(sorted(values), percent) if values else None


def of_sorted(ordered: Sequence[float], percent: float) -> float:
    """The same of at least one value, in order already."""
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def median(values: Sequence[float]) -> float:
    """Of at least one value."""
    return of_sorted(sorted(values), 50)


class Interval(msgspec.Struct, frozen=True):
    """A ratio, and where 95 of 100 repetitions would put it."""

    ratio: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether it tells the two apart."""
        return self.low > 1 or self.high < 1


Group = tuple[Sequence[float], Sequence[float]]
"""What one conversation brought on either side."""


def ratio_of_medians(groups: Sequence[Group], seed: int, draws: int = 1000) -> Interval | None:
    """median(second) / median(first) with its bootstrap interval; None where a side has nothing or no length.

    Whole conversations are drawn with replacement, on both sides the same ones: turns of one conversation are not
    independent, and the same conversation was held with either server.
    """
    whole = _ratio(groups)
    if whole is None:
        return None
    source = random.Random(f"bootstrap-{seed}")
    drawn = [_ratio(source.choices(groups, k=len(groups))) for _ in range(draws)]
    found = sorted(each for each in drawn if each is not None)
    return Interval(whole, of_sorted(found, 2.5), of_sorted(found, 97.5)) if found else None


def _ratio(groups: Sequence[Group]) -> float | None:
    first = [value for group in groups for value in group[0]]
    second = [value for group in groups for value in group[1]]
    if not first or not second:
        return None
    below = median(first)
    return median(second) / below if below > INSTANT else None
