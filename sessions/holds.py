"""Who uses what just now, among all processes that share a store: locks on single bytes of a file.

The kernel lets go of whatever a dead process held, so nothing has to expire and nobody who is only slow loses a lock.
The locks belong to the open file (Linux's OFD locks), not to the process, so two stores in one process exclude each
other like any others.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from sessions.gate import SessionBusy

FIRST_LOOK, LONGEST_LOOK = 0.002, 0.02
"""Seconds between two looks at a lock that another process has."""


class FileHolds:
    """What this process uses of one store.

    path: the file, made where it is missing; it stays empty. Raises OSError, here and everywhere.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._locks = _Locks(path)
        self._kept: Counter[str] = Counter()
        self._alone: set[int] = set()

    def __len__(self) -> int:
        """How many names this process uses."""
        return len(self._kept) + len(self._alone)

    @asynccontextmanager
    async def alone(self, name: str, *, wait: bool = True) -> AsyncIterator[int]:
        """Use what only one may use at a time; waits for other processes, or raises SessionBusy at once. Within one,
        the callers see to it that only one comes.

        Whoever is next holds the byte after, which is taken first: the process that has just been, with more turns
        waiting of its own, does not get in before.
        """
        place = _place(name)
        assert place not in self._alone, "two at once in one process"
        self._alone.add(place)
        try:
            await self._take(place + 1, wait=wait)
            try:
                await self._take(place, wait=wait)
            finally:
                self._locks.release(place + 1)
            yield 0  # such a lock cannot be lost, so it needs no fence
        finally:
            self._locks.release(place)
            self._alone.discard(place)

    async def held(self, names: Sequence[str]) -> set[str]:
        """Those of the names that somebody uses alone just now, here or in another process."""
        places = {name: _place(name) for name in names}
        return {name for name, place in places.items() if place in self._alone or self._locks.taken(place)}

    @asynccontextmanager
    async def keep(self, name: str) -> AsyncIterator[None]:
        """Use what others may use too, and nobody may remove."""
        self._kept[name] += 1
        try:
            await self._take(_place(name), shared=True)
            yield
        finally:
            self._kept[name] -= 1
            if not self._kept[name]:
                del self._kept[name]
                self._locks.release(_place(name))

    @asynccontextmanager
    async def unused(self, names: Sequence[str]) -> AsyncIterator[list[str]]:
        """Those of the names that nobody keeps; until the end of the block, nobody can."""
        locks = _Locks(self._path)  # of its own: it is to meet this process's locks as well
        try:
            yield [name for name in names if locks.take(_place(name))]
        finally:
            locks.close()

    def close(self) -> None:
        """Let go of all."""
        self._locks.close()

    async def _take(self, place: int, *, shared: bool = False, wait: bool = True) -> None:
        pause = FIRST_LOOK
        while not self._locks.take(place, shared=shared):
            if not wait:
                raise SessionBusy(0)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_LOOK)


class _Locks:
    """One opening of the file."""

    def __init__(self, path: Path) -> None:
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, place: int, *, shared: bool = False) -> bool:
        """Never waits; False when another opening has it. Again what is held already changes nothing."""
        assert self._file is not None, "closed"
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _flock(fcntl.F_RDLCK if shared else fcntl.F_WRLCK, place))
        except BlockingIOError:
            return False
        return True

    def taken(self, place: int) -> bool:
        """Whether another opening has it for itself; takes nothing."""
        assert self._file is not None, "closed"
        answer = fcntl.fcntl(self._file, fcntl.F_OFD_GETLK, _flock(fcntl.F_RDLCK, place))
        return int.from_bytes(answer[:2], sys.byteorder, signed=True) != fcntl.F_UNLCK

    def release(self, place: int) -> None:
        """Harmless when it is not held, and after the end."""
        if self._file is None:
            return
        fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _flock(fcntl.F_UNLCK, place))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _place(name: str) -> int:
    """An even offset; names that share one would only wait for each other."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little") >> 3 << 1


def _flock(kind: int, place: int) -> bytes:
    """The C struct: type, whence, start, length, and a process id that must be zero."""
    return struct.pack("hhqqi0q", kind, os.SEEK_SET, place, 1, 0)
