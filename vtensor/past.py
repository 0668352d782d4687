"""What the rTree had and has no longer, remembered only so that a miss can be explained. It decides nothing.

Most of what was evicted is remembered by the leaf it was cut from (`Node.cut`). Here is what has no such leaf any more,
and, after a flush, the tokens of all that was flushed: a hundred-thousandth of the memory that their rows took.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from hashlib import blake2b

from vtensor.node import Node, Tokens, leads_along
from vtensor.reuse import Why

MOST_CUTS = 4096
MOST_FLUSHED = 1 << 22
"""Tokens, of four bytes each."""


class Past:
    """Bounded: the oldest cuts are forgotten first, and a flush of more than MOST_FLUSHED tokens leaves no trace."""

    def __init__(self) -> None:
        self._cuts: OrderedDict[bytes, int] = OrderedDict()
        self._lengths: Counter[int] = Counter()
        self._flushed: Mapping[str, Node] = {}
        self._flushed_why = Why.FLUSHED

    def note_cut(self, tenant: str, tokens: Tokens) -> None:
        """These tokens were recorded, and the last of them was evicted."""
        key = _digest(tenant, tokens)
        if key not in self._cuts:
            self._lengths[len(tokens)] += 1
        self._cuts[key] = len(tokens)
        self._cuts.move_to_end(key)
        if len(self._cuts) > MOST_CUTS:
            _, length = self._cuts.popitem(last=False)
            self._lengths[length] -= 1

    def note_flush(self, roots: Mapping[str, Node], tokens: int, why: Why) -> None:
        """All of this was forgotten at once; what was noted before is of no interest any more."""
        if not roots:
            return
        self._cuts.clear()
        self._lengths.clear()
        self._flushed, self._flushed_why = (roots if tokens <= MOST_FLUSHED else {}), why

    def why_gone(self, tenant: str, tokens: Tokens) -> Why | None:
        """Why the last of these tokens is recorded no longer; None when nobody remembers that it was."""
        if self._lengths[len(tokens)] and _digest(tenant, tokens) in self._cuts:
            return Why.EVICTED
        root = self._flushed.get(tenant)
        return self._flushed_why if root is not None and leads_along(root, tokens) else None


def _digest(tenant: str, tokens: Tokens) -> bytes:
    return blake2b(tokens.tobytes(), digest_size=16, person=blake2b(tenant.encode(), digest_size=16).digest()).digest()
