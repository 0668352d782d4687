"""The memory while somebody watches it: one poll for all who watch the same, and none once they have gone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from chatserve.page.memory_look import MemoryLook, Viewer
from chatserve.page.memory_wire import MemoryAway, MemoryView, at_rest
from chatserve.server.errors import Unavailable, error_body
from chatserve.server.frames import event
from chatserve.server.running import RunningTurns

EVERY = 0.5
"""Seconds between two looks of one watch."""
APART, AT_MOST = 0.05, 1.0
"""Seconds between two looks of any."""
REST = 19
"""Between these, so many times what the last look took: a twentieth of the engine's time, were it all the engine's."""
NOTHING = ""
"""What is watched by who watches no conversation in particular."""


class Pace:
    """One look after the other in one process: whoever watches much, or a large tree, is told more seldom."""

    def __init__(self) -> None:
        self._looking = asyncio.Lock()
        self._next = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for it."""
        now = asyncio.get_running_loop().time
        async with self._looking:
            await asyncio.sleep(self._next - now())
            began = now()
            try:
                yield
            finally:
                self._next = now() + min(AT_MOST, max(APART, REST * (now() - began)))


class MemoryWatch:
    """There is one view to tell, the newest: whoever is slow misses those before it, and costs no more than others.

    focus: how many watch each conversation.
    """

    def __init__(self, look: MemoryLook, pace: Pace, running: RunningTurns) -> None:
        self.focus = Counter[str]()
        self._look = look
        self._pace = pace
        self._running = running
        self._newest: MemoryView | MemoryAway | None = None
        self._event: bytes | None = None
        self._number = 0
        self._changed = asyncio.Event()
        self._polling = asyncio.create_task(self._poll(), name="memory watch")
        self._polling.add_done_callback(lambda _: self._changed.set())

    async def events(self) -> AsyncGenerator[bytes]:
        """The newest view, and again whenever it has changed, until the server leaves."""
        told = 0
        while not self._polling.done():
            if told == self._number:
                await self._changed.wait()
            else:
                told = self._number
                yield self._encoded()
        self._polling.result()

    def end(self) -> None:
        """Nobody watches any more."""
        self._polling.cancel()

    async def _poll(self) -> None:
        known: MemoryView | MemoryAway | None = None
        while not self._running.closed:
            async with self._pace.turn():
                newest = await self._seen()
            self._newest, self._event = newest, None
            resting = at_rest(newest) if isinstance(newest, MemoryView) else newest
            if resting != known:
                known = resting
                self._number += 1
                self._changed.set()
                self._changed = asyncio.Event()
            await asyncio.sleep(EVERY)

    async def _seen(self) -> MemoryView | MemoryAway:
        try:
            return await self._look([conversation for conversation in self.focus if conversation != NOTHING])
        except Unavailable as error:
            return MemoryAway(error_body(error).error)

    def _encoded(self) -> bytes:
        """Once for all who are told of it."""
        if self._event is None:
            assert self._newest is not None
            self._event = event(self._newest)
        return self._event


class MemoryWatches:
    """begin: a look as this viewer sees it."""

    def __init__(self, begin: Callable[[Viewer], MemoryLook], running: RunningTurns) -> None:
        self._begin = begin
        self._running = running
        self._pace = Pace()
        self._watches: dict[Viewer, MemoryWatch] = {}

    def __len__(self) -> int:
        """How many polls there are."""
        return len(self._watches)

    async def events(self, viewer: Viewer, conversation: str = NOTHING) -> AsyncIterator[bytes]:
        """conversation: one of the viewer's own, to be shown however long it was not used."""
        watch = self._watches.get(viewer)
        if watch is None:
            watch = self._watches[viewer] = MemoryWatch(self._begin(viewer), self._pace, self._running)
        watch.focus[conversation] += 1
        try:
            async with aclosing(watch.events()) as events:
                async for told in events:
                    yield told
        finally:
            watch.focus -= Counter((conversation,))
            if not watch.focus:
                watch.end()
                del self._watches[viewer]
