"""What is going to be said, before anybody says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """message: the user's.  answer: tokens that are asked for.  think: seconds from the answer before to this message.

    branch: it takes the place of the last exchange, as editing or regenerating does.
    cancel_after: the reader leaves after so many events with text; None for one who stays.
    """

    message: str
    answer: int
    think: float = 0.0
    branch: bool = False
    cancel_after: int | None = None


@dataclass(frozen=True, slots=True)
class ConversationPlan:
    """number: which one it is; the same number is the same conversation, in every process and for every server.

    system: the system prompt; None without one.
    """

    number: int
    system: str | None
    turns: tuple[TurnPlan, ...]
    priority: int = 0


class Conversations(Protocol):
    """An endless row of them."""

    def plan(self, number: int) -> ConversationPlan:
        """The conversation of this number, from 0."""
        ...
