"""Where a request's first rows came from, and why there were no more: plain values, for whoever asks why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Why(Enum):
    """Why reuse ended before the last token.

    RECORD_ENDS: what was recorded ends there, and everything of it was reused; what follows is new.
    DIFFERS: what is recorded goes on with another token.
    EVICTED: just this was recorded further, and its end was given up for want of memory, or unused for too long.
    FLUSHED, DISTRUSTED: just this was recorded further when everything was forgotten, by an order, or because numbers
        went wrong.
    BELOW_UNIT: less than a chunk more was recorded, and there was no memory to copy it. Elsewhere the unit is a token.
    NOTHING_RECORDED: not its first token, and nobody remembers that it was. Also where another tenant has it: what one
        tenant has recorded is never told to another.
    REUSE_OFF: nothing was looked for, as was asked.
    """

    RECORD_ENDS = "record_ends"
    DIFFERS = "differs"
    EVICTED = "evicted"
    FLUSHED = "flushed"
    DISTRUSTED = "distrusted"
    BELOW_UNIT = "below_unit"
    NOTHING_RECORDED = "nothing_recorded"
    REUSE_OFF = "reuse_off"


@dataclass(frozen=True, slots=True)
class Stop:
    """at: tokens before it.  asked: the token there; None where nothing was looked for.

    found: with DIFFERS, what the same tenant's most recently used record has in its place.
    """

    at: int
    why: Why
    asked: int | None = None
    found: int | None = None


@dataclass(frozen=True, slots=True)
class Reuse:
    """Tokens by where their rows came from.

    taken_over: in the slot where they were still mapped.  mapped: whole chunks mapped at a fresh slot.
    copied: the used rows of the chunk that a match ended inside.  promoted: brought back from a lower tier.
    stop: where reuse ended early; None when all but the last token was reused.
    """

    taken_over: int = 0
    mapped: int = 0
    copied: int = 0
    promoted: int = 0
    stop: Stop | None = None

    @property
    def tokens(self) -> int:
        return self.taken_over + self.mapped + self.copied + self.promoted
