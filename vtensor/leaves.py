"""The leaves of the rTree in the order in which they are given up: least recently used first, in use never."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import count
from operator import itemgetter

from vtensor.node import Node


class LeafQueue:
    """A heap whose entries may be late: a leaf that was used since is put where it belongs when its turn comes.

    Of two leaves last used at one time, the one that has waited longer is first.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Node]] = []
        self._arrivals = count()

    def __iter__(self) -> Iterator[Node]:
        """In no order."""
        return (leaf for _, _, leaf in self._entries)

    def add(self, leaf: Node) -> None:
        """As it was used last; nothing where it waits already."""
        if not leaf.queued:
            leaf.queued = True
            heapq.heappush(self._entries, (leaf.stamp, next(self._arrivals), leaf))

    def take(self, unused_since: float) -> Node | None:
        """The next one whose last chunk nobody runs on, if it was last used before this time; it waits no more."""
        in_use: list[tuple[float, int, Node]] = []
        taken = None
        while self._entries and taken is None and self._entries[0][0] < unused_since:
            entry = heapq.heappop(self._entries)
            stamp, arrival, leaf = entry
            if stamp != leaf.stamp:
                heapq.heappush(self._entries, (leaf.stamp, arrival, leaf))
            elif evictable(leaf):
                leaf.queued = False
                taken = leaf
            else:
                in_use.append(entry)
        for entry in in_use:
            heapq.heappush(self._entries, entry)
        return taken

    def in_order(self) -> list[Node]:
        """Everyone, in the order in which `take` looks at them; changes nothing."""
        waiting = sorted(self._entries, key=itemgetter(1))
        waiting.sort(key=lambda entry: entry[2].stamp)
        return [leaf for _, _, leaf in waiting]

    def clear(self) -> None:
        """Nobody waits any more."""
        self._entries.clear()


def evictable(leaf: Node) -> bool:
    """Whether giving up its last chunk would free it."""
    return not leaf.chunks[-1].in_use
