"""Messages where they stand in a conversation."""

from __future__ import annotations

import msgspec

from sessions.turns import Message, Status, Turn


class Item(msgspec.Struct, frozen=True):
    """One message where it stands in a conversation. `id` is the same on every branch.

    status: of the turn for an answer; what was given is completed.
    """

    turn: str
    index: int
    message: Message
    status: Status

    @property
    def id(self) -> str:
        return f"{self.turn}_{self.index}"


def items_of(turn: Turn) -> list[Item]:
    """The messages of a turn, its answer last."""
    items = [Item(turn.id, index, message, "completed") for index, message in enumerate(turn.messages)]
    if turn.answer is not None:
        items.append(Item(turn.id, len(items), Message("assistant", turn.answer), turn.status))
    return items
