"""Messages that were taken out of a conversation: a note in its past says which, and nobody reads either again.

So nothing that is stored is rewritten, and a branch at an answer before the note still has what the note takes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from sessions.turns import Message

_REMOVED: Final = "removed"
"""The role of a note. Clients cannot send it."""


class _Placed(Protocol):
    @property
    def message(self) -> Message: ...


P = TypeVar("P", bound=_Placed)


def removal(back: int) -> Message:
    """A note on the message so many places before it."""
    return Message(_REMOVED, str(back))


def removes(messages: Sequence[Message]) -> bool:
    return any(message.role == _REMOVED for message in messages)


def remaining(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Those that are neither notes nor noted on. messages: without a gap, so that each note finds its message."""
    gone = _gone(messages)
    return tuple(message for place, message in enumerate(messages) if place not in gone)


def remaining_items(items: Sequence[P]) -> list[P]:
    """The same of a conversation's items, the first one first."""
    gone = _gone([item.message for item in items])
    return [item for place, item in enumerate(items) if place not in gone]


def _gone(messages: Sequence[Message]) -> set[int]:
    notes = [place for place, message in enumerate(messages) if message.role == _REMOVED]
    return {*notes, *(place - int(messages[place].content) for place in notes)}
