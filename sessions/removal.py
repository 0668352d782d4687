"""Messages that were taken out of a conversation: a note in its past says which, and nobody reads either again.

So nothing that is stored is rewritten, and a branch at an answer before the note still has what the note takes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from sessions.items import Item, items_of
from sessions.turns import Message, Turn

REMOVED: Final = "removed"
"""The role of a note. Clients cannot send it."""


class _Placed(Protocol):
    @property
    def message(self) -> Message: ...


P = TypeVar("P", bound=_Placed)


def removal(back: int) -> Message:
    """A note on the message so many places before it."""
    return Message(REMOVED, str(back))


def removes(messages: Sequence[Message]) -> bool:
    return any(message.role == REMOVED for message in messages)


def remaining(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Those that are neither notes nor noted on. messages: without a gap, so that each note finds its message."""
    gone = _gone(messages)
    return tuple(message for place, message in enumerate(messages) if place not in gone)


def remaining_items(items: Sequence[P]) -> list[P]:
    """The same of a conversation's items, the first one first."""
    gone = _gone([item.message for item in items])
    return [item for place, item in enumerate(items) if place not in gone]


def without_removed(turns: Sequence[Turn], path: Sequence[Item]) -> list[Turn]:
    """All turns of a conversation without what was taken out of its path; a branch beside it that never had the note of
    that keeps it.

    path: every item from the beginning to the leaf.
    """
    gone = {item.id for item in path} - {item.id for item in remaining_items(path)}
    return [_without(turn, gone) for turn in turns]


def _gone(messages: Sequence[Message]) -> set[int]:
    notes = [place for place, message in enumerate(messages) if message.role == REMOVED]
    return {*notes, *(place - int(messages[place].content) for place in notes)}


def _without(turn: Turn, gone: set[str]) -> Turn:
    left = [item for item in items_of(turn) if item.id not in gone and not removes((item.message,))]
    answered = turn.answer is not None and left[-1:] == items_of(turn)[-1:]
    messages = tuple(item.message for item in (left[:-1] if answered else left))
    return msgspec.structs.replace(turn, messages=messages, answer=turn.answer if answered else None)
