"""Conversations in one SQLite file: a writing connection, a reading one, and one for searches, which no turn is to wait
for; each on a thread of its own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from sessions import sqlite_reads as reads
from sessions import sqlite_writes as writes
from sessions.holds import FileHolds
from sessions.lane import Lane
from sessions.schema import connect_reader, connect_searcher, connect_writer
from sessions.search import Hit
from sessions.sqlite_search import search
from sessions.turns import Conversation, Turn


class SqliteStore:
    """A `sessions.store.Store`. Writes wait for one another, and for other processes up to the busy timeout;
    reads wait for nobody.
    """

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self._writer = Lane("sessions-writer", partial(connect_writer, path, busy_timeout))
        self._reader = Lane("sessions-reader", partial(connect_reader, path, busy_timeout))
        self._searcher = Lane("sessions-searcher", partial(connect_searcher, path, busy_timeout))
        self._locks = path.with_name(f"{path.name}-locks")
        self._holds: FileHolds | None = None

    @property
    def holds(self) -> FileHolds:
        assert self._holds is not None, "the store is not open"
        return self._holds

    @classmethod
    async def open(cls, path: str | Path, *, busy_timeout: float = 10.0) -> SqliteStore:
        """Open a file, or create it with its folders.

        busy_timeout: seconds that a call waits for another process's transaction. Raises NewerFormat,
            StoreUnavailable.
        """
        store = cls(Path(path), busy_timeout)
        try:
            await store._writer.run(_connected)
            await store._reader.run(_connected)
            store._holds = await store._writer.run(_open_holds, store._locks)
        except BaseException:
            await store.close()
            raise
        return store

    async def conversation(self, conversation: str) -> Conversation | None:
        return await self._reader.run(reads.conversation, conversation)

    async def session(self, tenant: str, session: str) -> Conversation | None:
        return await self._reader.run(reads.session, tenant, session)

    async def opened(self, tenant: str, session: str) -> tuple[Conversation, list[Turn]] | None:
        return await self._reader.run(reads.opened, tenant, session)

    async def conversations(self, tenant: str, after: str | None, limit: int) -> list[Conversation]:
        return await self._reader.run(reads.conversations, tenant, after, limit)

    async def recent(self, tenant: str, after: str | None, limit: int) -> list[Conversation]:
        return await self._reader.run(reads.recent, tenant, after, limit)

    async def search(self, tenant: str, words: Sequence[str], after: str | None, limit: int) -> list[Hit]:
        return await self._searcher.run(search, tenant, words, after, limit)

    async def turns(self, conversation: str) -> list[Turn]:
        return await self._reader.run(reads.turns, conversation)

    async def turn(self, tenant: str, turn: str) -> Turn | None:
        return await self._reader.run(reads.turn, tenant, turn)

    async def chain(self, turn: str) -> list[Turn]:
        return await self._reader.run(reads.chain, turn)

    async def find(self, tenant: str, digests: Sequence[bytes]) -> list[Turn]:
        return await self._reader.run(reads.find, tenant, digests) if digests else []

    async def create(self, conversation: Conversation, turns: Sequence[Turn]) -> None:
        await self._writer.write(writes.create, conversation, turns)

    async def add(self, conversation: Conversation, turn: Turn) -> None:
        await self._writer.write(writes.add, conversation, turn)

    async def advance(self, conversation: Conversation, turn: Turn, fence: int = 0) -> None:
        del fence  # nobody loses a lock of the kernel's
        await self._writer.write(writes.advance, conversation, turn)

    async def update(self, tenant: str, conversation: str, metadata: Mapping[str, str]) -> Conversation:
        return await self._writer.write(writes.update, tenant, conversation, metadata)

    async def delete(self, tenant: str, conversation: str) -> bool:
        return await self._writer.write(writes.delete, tenant, conversation)

    async def hide(self, tenant: str, turn: str) -> bool:
        return await self._writer.write(writes.hide, tenant, turn)

    async def idle(self, before: float, skip: Collection[str], limit: int) -> list[str]:
        return await self._reader.run(reads.idle, before, skip, limit)

    async def expire(self, before: float, conversations: Sequence[str]) -> int:
        return await self._writer.write(writes.expire, before, conversations)

    async def close(self) -> None:
        await self._reader.close()
        await self._searcher.close()
        await self._writer.close()
        if self._holds is not None:
            self._holds.close()
            self._holds = None


def _connected(_: sqlite3.Connection) -> None:
    """The lane connects before its first work."""


def _open_holds(_: sqlite3.Connection, path: Path) -> FileHolds:
    """After the connection, which makes the folder."""
    return FileHolds(path)
