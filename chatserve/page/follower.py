"""One open page: what it is still to be told, never more than a little, however slowly it reads."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from chatserve.page.live_turn import LiveTurn
from chatserve.page.live_wire import Event
from chatserve.server.frames import event

MOST: Final = 64
"""Events that may wait for a page; one that is further behind begins anew, by asking again."""


class Follower:
    """Texts do not wait: of an answer, only from where on it has changed is kept, so they are always the newest."""

    def __init__(self) -> None:
        self._waiting: deque[Event] = deque()
        self._growing: tuple[LiveTurn, int] | None = None
        self._closed = False
        self._news = asyncio.Event()

    def tell(self, said: Event) -> None:
        self._waiting.append(said)
        if len(self._waiting) > MOST:
            self.close()
        self._news.set()

    def grew(self, turn: LiveTurn, start: int) -> None:
        """The answer is another one from this block on."""
        waiting = self._growing
        self._growing = (turn, start if waiting is None or waiting[0] is not turn else min(waiting[1], start))
        self._news.set()

    def forget(self, turn: LiveTurn) -> None:
        """Its end says everything."""
        if self._growing is not None and self._growing[0] is turn:
            self._growing = None

    def close(self) -> None:
        """Nothing follows what waits already."""
        self._closed = True
        self._news.set()

    async def told(self) -> AsyncIterator[Event]:
        """What it is told, until it is closed."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting or self._growing is not None:
                yield self._next()
            if self._closed:
                return

    async def events(self) -> AsyncIterator[bytes]:
        """The same, as it is sent to a page."""
        async for said in self.told():
            yield event(said)

    def _next(self) -> Event:
        if self._waiting:
            return self._waiting.popleft()
        assert self._growing is not None, "there is something to tell"
        (turn, start), self._growing = self._growing, None
        return turn.text(start)
