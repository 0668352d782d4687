"""How many users there are over time, by name. Free of Locust, which changes what it is imported into."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

STEPS: Final = 5
SPIKE_BEGINS, SPIKE_ENDS, BESIDE_SPIKE = 0.4, 0.6, 0.2
"""Shares of the time; users outside the spike, as a share of those inside."""
SOAK_RISE: Final = 0.05
"""Of the time, until all users are there."""


def steps(share: float) -> float:
    """Five equal steps up."""
    return (math.floor(share * STEPS) + 1) / STEPS


def spike(share: float) -> float:
    """Few, suddenly all, few again."""
    return 1.0 if SPIKE_BEGINS <= share < SPIKE_ENDS else BESIDE_SPIKE


def soak(share: float) -> float:
    """A short rise, then all to the end."""
    return min(1.0, share / SOAK_RISE)


SHAPES: Final[Mapping[str, Callable[[float], float]]] = {"steps": steps, "spike": spike, "soak": soak}
"""The share of users at a share of the time, both from 0 to 1."""


def users_at(name: str, share: float, most: int) -> int | None:
    """At a share of the time; None when that is over."""
    return max(1, round(most * SHAPES[name](share))) if share < 1 else None
