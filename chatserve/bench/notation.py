"""How a load is written on a command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from chatserve.bench.workload import Share, Spread, Think


class BadNotation(ValueError):
    """What was written is nothing of the kind; the message says how to write it."""


def spread(name: str, text: str) -> Spread:
    """`MEAN` or `MEAN:SPREAD`. Raises BadNotation."""
    match = re.fullmatch(r"(\d+)(?::(\d+))?", text)
    if match is None or int(match[1]) < 1:
        raise BadNotation(f"{name}: {text!r} is no mean of at least 1; write 6, or 6:2 for anything from 4 to 8")
    return Spread(int(match[1]), int(match[2] or 0))


def think(name: str, text: str) -> Think:
    """`MEDIAN` or `MEDIAN:SIGMA`, in seconds. Raises BadNotation."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?::(\d+(?:\.\d+)?))?", text)
    if match is None:
        raise BadNotation(f"{name}: {text!r} is no time; write 5 for 5 seconds, or 5:0.8 for a lognormal of that sigma")
    return Think(float(match[1]), float(match[2] or 0.0))


def rate(name: str, value: float) -> float:
    """A share from 0 to 1. Raises BadNotation."""
    if not 0 <= value <= 1:
        raise BadNotation(f"{name}: {value:g} is no share; write it as a number from 0 to 1")
    return value


def fields(name: str, text: str | None) -> Mapping[str, Any]:
    """A JSON object; none is an empty one. Raises BadNotation."""
    try:
        return {} if text is None else msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        raise BadNotation(f"{name}: {text!r} is no JSON object; write it as '{{\"top_k\": 1}}'") from None


def priorities(name: str, text: str) -> tuple[Share, ...]:
    """`PRIORITY=WEIGHT,...`. Raises BadNotation."""
    shares = []
    for each in text.split(","):
        match = re.fullmatch(r"(-?\d+)(?:=(\d+(?:\.\d+)?))?", each.strip())
        if match is None:
            raise BadNotation(f"{name}: {each!r} is no priority; write 0=3,10=1 for three in four of 0, the others 10")
        shares.append(Share(int(match[1]), float(match[2] or 1.0)))
    if not sum(share.weight for share in shares):
        raise BadNotation(f"{name}: all weights of {text!r} are 0")
    return tuple(shares)
