"""What every store checks of the turns that it read, and their order."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from sessions.store import BadRecord
from sessions.turns import Turn


def parents_first(turns: Sequence[Turn]) -> list[Turn]:
    """The turns of one conversation in the order of their ends, but none before its parent, whose clock may have been
    ahead. Raises BadRecord when a parent is missing.
    """
    following: dict[str | None, list[Turn]] = {}
    for turn in turns:
        following.setdefault(turn.parent, []).append(turn)
    ready = [(turn.created, turn.id, turn) for turn in following.get(None, ())]
    heapq.heapify(ready)
    ordered: list[Turn] = []
    while ready:
        turn = heapq.heappop(ready)[-1]
        ordered.append(turn)
        for child in following.get(turn.id, ()):
            heapq.heappush(ready, (child.created, child.id, child))
    if len(ordered) != len(turns):
        raise BadRecord("a conversation has turns that continue none of it")
    return ordered


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
