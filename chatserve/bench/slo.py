"""Limits that a turn is to meet: `ttft=500ms,tpot=50ms`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from chatserve.bench.outcome import Outcome

_UNITS: Final[Mapping[str, float]] = {"ms": 1e-3, "s": 1.0}
_LIMIT: Final = re.compile(r"(ttft|tpot|e2e)=(\d+(?:\.\d+)?)(ms|s)")


class BadSlo(ValueError):
    """What was written is no limit; the message says how to write one."""


class Slo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Seconds; None where there is no limit."""

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None

    @classmethod
    def parse(cls, text: str) -> Slo:
        """Raises BadSlo."""
        limits: dict[str, float] = {}
        for each in text.split(","):
            match = _LIMIT.fullmatch(each.strip())
            if match is None:
                raise BadSlo(f"{each!r} is no limit; write them as ttft=500ms,tpot=50ms,e2e=10s (any of the three)")
            limits[match[1]] = float(match[2]) * _UNITS[match[3]]
        return cls(**limits)

    def met(self, outcome: Outcome) -> bool:
        """By a whole answer, in all that was measured of it. An answer without text meets no limit on TTFT."""
        if not outcome.whole or (self.ttft is not None and outcome.ttft is None):
            return False
        pairs = ((self.ttft, outcome.ttft), (self.tpot, outcome.tpot), (self.e2e, outcome.e2e))
        return all(limit is None or value is None or value <= limit for limit, value in pairs)

    def __str__(self) -> str:
        stated = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return ", ".join(f"{name} <= {1e3 * limit:g} ms" for name, limit in stated if limit is not None)
