"""One turn at a time for each key; the others wait in the order of their arrival, and only so many."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class SessionBusy(Exception):
    """A turn of this session is running and as many as may wait already do."""

    def __init__(self, limit: int) -> None:
        waiting = f" and {limit} more are waiting, which is the limit" if limit else ""
        super().__init__(f"a turn of this session is running{waiting}: send the next turn after an answer has come")
        self.limit = limit


class Gate:
    """max_waiting: how many may wait for one key, besides the one inside. A key nobody needs takes no memory."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._lines: dict[Hashable, _Line] = {}

    def __len__(self) -> int:
        """How many keys are in use."""
        return len(self._lines)

    @asynccontextmanager
    async def enter(self, key: Hashable, *, wait: bool = True) -> AsyncIterator[None]:
        """Hold the key. Raises SessionBusy at once when the line is full, or, for one who does not wait, not empty."""
        most = self._max_waiting if wait else 0
        line = self._lines.setdefault(key, _Line())
        if line.length > most:
            raise SessionBusy(most)
        line.length += 1
        try:
            async with line.lock:  # asyncio's lock is fair, and a cancelled waiter leaves its line
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self._lines[key]


class _Line:
    """The one inside and all who wait."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.length = 0
