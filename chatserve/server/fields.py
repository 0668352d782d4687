"""Reading one field of a request: its value, or a 400 that names the field, the value and the limit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from chatserve.server.errors import BadRequest, shown


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one JSON object. Every method gives None for a field that is absent or null."""

    values: Mapping[str, object]

    def integer(self, name: str, *, low: int | None = None, high: int | None = None) -> int | None:
        """A whole number in [low, high]; booleans, floats and strings are none."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise _wrong(name, value, "a whole number")
        if (low is not None and value < low) or (high is not None and value > high):
            raise _outside(name, value, low, high)
        return value

    def number(self, name: str, *, low: float, high: float, above: bool = False) -> float | None:
        """A finite number in [low, high], or with `above` in (low, high]."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(name, value, "a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise _wrong(name, value, "a finite number")
        if value < low or value > high or (above and value == low):
            raise _outside(name, value, low, high, "above " if above else "")
        return float(value)

    def flag(self, name: str) -> bool | None:
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return value
        raise _wrong(name, value, "true or false")

    def text(self, name: str, *, longest: int) -> str | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise _wrong(name, value, "a string")
        if len(value) > longest:
            raise BadRequest(f"{name} is longer than {longest} characters: {shown(value)}.", param=name)
        return value

    def nested(self, name: str) -> Fields:
        """A nested object; empty when absent or null."""
        value = self.values.get(name)
        if value is None:
            return Fields({})
        if not isinstance(value, dict):
            raise _wrong(name, value, "an object")
        return Fields(value)

    def refuse(self, name: str, *neutral: object) -> None:
        """Refuses a field that means something this server does not do, unless it is null or says so."""
        value = self.values.get(name)
        if value is None or any(type(value) is type(same) and value == same for same in neutral):
            return
        raise BadRequest(
            f"{name} is not supported by this server (it was {shown(value)}). Leave it out.",
            param=name,
            code="unsupported_parameter",
        )


def _wrong(name: str, value: object, wanted: str) -> BadRequest:
    return BadRequest(f"{name} must be {wanted}, not {shown(value)}.", param=name, code="invalid_type")


def _outside(name: str, value: object, low: float | None, high: float | None, above: str = "") -> BadRequest:
    if high is None:
        limit = f"at least {low}"
    elif above:
        limit = f"above {low} and at most {high}"
    else:
        limit = f"from {low} to {high}"
    return BadRequest(f"{name} must be {limit}, not {shown(value)}.", param=name, code="out_of_range")
