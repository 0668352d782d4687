"""What every store checks of a chain that it read."""

from __future__ import annotations

from collections.abc import Sequence

from sessions.store import BadRecord
from sessions.turns import Turn


def check_chain(chain: Sequence[Turn], leaf: str) -> None:
    """Raises BadRecord unless the chain ends in the turn asked for, is linked without a gap from a root, and
    lies in one conversation.
    """
    parent: str | None = None
    for turn in chain:
        if turn.parent != parent or turn.conversation != chain[0].conversation:
            raise BadRecord(f"turn {turn.id} does not continue the turn before it")
        parent = turn.id
    if parent != leaf:
        raise BadRecord(f"turn {leaf} was asked for, turn {parent} was found")
