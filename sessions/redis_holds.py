"""Who uses what, among all processes of one Redis server: leases that their holders renew.

A process that dies lets go when its leases lapse. One that is only slow, or cut off, may lose a lease to another; what
it saves later is refused by its fence, in the script that saves. What is kept is looked at by the script that expires.

The line keeps the order of its calls: what gives a hold up is made after what took or renewed it, whatever happens to
the caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sessions.gate import SessionBusy
from sessions.redis_hold_scripts import CLAIM, DISCLAIM, DROP, HELD, KEEP, LEAVE, RENEW, TAKE
from sessions.redis_line import Arg, RedisLine
from sessions.redis_scripts import Script
from sessions.store import StoreUnavailable

FIRST_LOOK, LONGEST_LOOK = 0.002, 0.05
"""Seconds between two looks at what another process has."""


class RedisHolds:
    """lease: seconds after which what a dead process used is free again."""

    def __init__(self, line: RedisLine, lease: float = 15.0) -> None:
        self._line = line
        self._lease = lease
        self._ms = max(1, int(lease * 1000))
        self._alone: dict[tuple[str, str], int] = {}
        self._kept: set[tuple[str, str]] = set()
        self._renewing: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many names this process uses."""
        return len(self._alone) + len({name for name, _ in self._kept})

    @asynccontextmanager
    async def alone(self, name: str, *, wait: bool = True) -> AsyncIterator[int]:
        """A `Holds.alone`. Raises StoreUnavailable."""
        token = uuid.uuid4().hex
        try:
            fence: int = await self._until_granted(TAKE, name, token, self._ms, wait=wait)
            self._alone[name, token] = fence
            self._renew()
            yield fence
        finally:
            self._alone.pop((name, token), None)
            await _done(self._line.submit(LEAVE, name, token))

    async def held(self, names: Sequence[str]) -> set[str]:
        """A `Holds.held`. Raises StoreUnavailable."""
        return {name.decode() for name in await self._line.call(HELD, *names)} if names else set()

    @asynccontextmanager
    async def keep(self, name: str) -> AsyncIterator[None]:
        """A `Holds.keep`. Raises StoreUnavailable."""
        token = uuid.uuid4().hex
        try:
            await self._until_granted(KEEP, name, token, self._ms)
            self._kept.add((name, token))
            self._renew()
            yield
        finally:
            self._kept.discard((name, token))
            await _done(self._line.submit(DROP, name, token))

    @asynccontextmanager
    async def unused(self, names: Sequence[str]) -> AsyncIterator[list[str]]:
        """A `Holds.unused`, for as long as a lease. Raises StoreUnavailable."""
        token = uuid.uuid4().hex
        try:
            yield [name.decode() for name in await self._line.call(CLAIM, token, self._ms, *names)]
        finally:
            await _done(self._line.submit(DISCLAIM, token, *names))

    async def close(self) -> None:
        """Renew no longer; what is still held lapses."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait((self._renewing,))

    async def _until_granted(self, script: Script, *args: Arg, wait: bool = True) -> int:
        pause = FIRST_LOOK
        while not (granted := await self._line.call(script, *args)):
            if not wait:
                raise SessionBusy(0)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK)
        return int(granted)

    def _renew(self) -> None:
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._keep_renewing())

    async def _keep_renewing(self) -> None:
        """While anything is held."""
        while self._alone or self._kept:
            await asyncio.sleep(self._lease / 3)
            calls = [
                self._line.submit(RENEW, name, token, self._ms, fence) for (name, token), fence in self._alone.items()
            ]
            calls += [self._line.submit(KEEP, name, token, self._ms) for name, token in self._kept]
            await asyncio.gather(*calls, return_exceptions=True)  # of those that fail, the next round tries again


async def _done(leaving: asyncio.Future[Any]) -> None:
    """A server that cannot be reached forgets by itself."""
    with contextlib.suppress(StoreUnavailable):
        await asyncio.shield(leaving)
