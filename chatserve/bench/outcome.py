"""What became of one turn: its facts, from which every figure is made."""

from __future__ import annotations

from typing import Final

import msgspec

UNREACHABLE: Final = "no connection"
CUT: Final = "cut off"
NO_END: Final = "no end mark"
NO_USAGE: Final = "no usage"
ERROR_EVENT: Final = "error event"
NONSENSE: Final = "no sense"
LENGTH: Final = "wrong length"
TIMEOUT: Final = "took too long"


def of_status(status: int) -> str:
    """The kind of failure that an HTTP status other than 200 is."""
    return f"status {status}"


class Failure(msgspec.Struct, frozen=True):
    """kind: what failures are counted by.  told: what the server, or the system, said."""

    kind: str
    told: str


class Usage(msgspec.Struct, frozen=True):
    """Tokens, as the server counts them.  cached: None where it does not say."""

    prompt: int
    completion: int
    cached: int | None


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn as its client saw it. Moments are seconds on one clock that all clients of a run share.

    turn: its number in its conversation, from 0.
    due: when it was to be sent.  sent: when its last byte was handed to the socket; None if it never was.
    begin: what latencies count from: `due` in an open loop, else `sent`; `due` where it was never sent.
    opened: the first event of any kind.  first: the first event with text.
    ended: the end mark, or whatever else ended it.
    gaps: seconds between events with text, in order.
    usage: of a whole answer.
    branch: it took the place of the last exchange.  cancelled: the client left on purpose.
    warm: it was sent while the load was warming up, and is in no figure.
    """

    conversation: int
    turn: int
    due: float
    begin: float
    ended: float
    sent: float | None = None
    opened: float | None = None
    first: float | None = None
    gaps: tuple[float, ...] = ()
    usage: Usage | None = None
    failure: Failure | None = None
    cancelled: bool = False
    branch: bool = False
    priority: int = 0
    warm: bool = False

    @property
    def whole(self) -> bool:
        """Whether it is in the latency figures."""
        return self.failure is None and not self.cancelled

    @property
    def ttft(self) -> float | None:
        """None of an answer without text."""
        return None if self.first is None else self.first - self.begin

    @property
    def e2e(self) -> float:
        """Of a whole answer."""
        return self.ended - self.begin

    @property
    def tpot(self) -> float | None:
        """None where there was no text, or one token only."""
        if self.ttft is None or self.usage is None or self.usage.completion < 2:
            return None
        return (self.e2e - self.ttft) / (self.usage.completion - 1)

    @property
    def largest_gap(self) -> float:
        return max(self.gaps, default=0.0)

    @property
    def events(self) -> int:
        """How many carried text."""
        return 0 if self.first is None else len(self.gaps) + 1

    @property
    def late(self) -> float:
        """Seconds that the client itself lost before it sent."""
        return 0.0 if self.sent is None else self.sent - self.due
