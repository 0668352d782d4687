"""Conversations in one SQLite file: a writing connection and a reading one, each on a thread of its own."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from sessions.holds import Holds
from sessions.lane import Lane
from sessions.rows import (
    CONVERSATION_COLUMNS,
    TURN_COLUMNS,
    Row,
    check_chain,
    conversation_from_row,
    turn_from_row,
    turn_to_row,
)
from sessions.schema import connect_reader, connect_writer, transaction
from sessions.store import NotFound, TurnConflict
from sessions.turns import Conversation, Turn

CHAIN = f"""
    WITH RECURSIVE chain (depth, number, parent) AS (
        SELECT 0, number, parent FROM turns WHERE id = ?
        UNION ALL
        SELECT depth + 1, turns.number, turns.parent FROM chain JOIN turns ON turns.id = chain.parent
    )
    SELECT {", ".join(f"turns.{column}" for column in TURN_COLUMNS.split(", "))}
    FROM chain JOIN turns ON turns.number = chain.number ORDER BY depth DESC
"""
CONVERSATION = f"SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE id = ?"
SESSION = f"SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE tenant = ? AND session = ?"
FIND = """
    SELECT turns.id FROM turns JOIN conversations ON conversations.id = turns.conversation
    WHERE turns.digest = ? AND conversations.tenant = ? ORDER BY turns.number DESC LIMIT 1
"""
INSERT_TURN = f"INSERT INTO turns ({TURN_COLUMNS}) VALUES ({', '.join('?' * 11)}) ON CONFLICT (id) DO NOTHING"
IDLE = """
    SELECT id FROM conversations WHERE session IS NULL AND used < ?
    AND id NOT IN (SELECT value FROM json_each(?)) ORDER BY used LIMIT ?
"""
EXPIRE = """
    DELETE FROM conversations WHERE session IS NULL AND used < ? AND id IN (SELECT value FROM json_each(?))
"""


class SqliteStore:
    """A `sessions.store.Store`. Writes wait for one another, and for other processes up to the busy timeout;
    reads wait for nobody.
    """

    def __init__(self, path: Path, busy_timeout: float) -> None:
        self._writer = Lane("sessions-writer", partial(connect_writer, path, busy_timeout))
        self._reader = Lane("sessions-reader", partial(connect_reader, path, busy_timeout))
        self._locks = path.with_name(f"{path.name}-locks")
        self._holds: Holds | None = None

    @property
    def holds(self) -> Holds:
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
        return await self._reader.run(_conversation, conversation)

    async def session(self, tenant: str, session: str, now: float) -> Conversation | None:
        del now  # sessions do not expire here, and an opening that only reads waits for no writer
        return await self._reader.run(_session, tenant, session)

    async def chain(self, turn: str) -> list[Turn]:
        return await self._reader.run(_chain, turn)

    async def find(self, tenant: str, digests: Sequence[bytes]) -> list[Turn]:
        return await self._reader.run(_find, tenant, digests) if digests else []

    async def add(self, conversation: Conversation, turn: Turn) -> None:
        await self._writer.run(_add, conversation, turn)

    async def advance(self, conversation: Conversation, turn: Turn) -> None:
        await self._writer.run(_advance, conversation, turn)

    async def idle(self, before: float, skip: Collection[str], limit: int) -> list[str]:
        return await self._reader.run(_idle, before, skip, limit)

    async def expire(self, before: float, conversations: Sequence[str]) -> int:
        return await self._writer.run(_expire, before, conversations)

    async def close(self) -> None:
        await self._reader.close()
        await self._writer.close()
        if self._holds is not None:
            self._holds.close()
            self._holds = None


def _connected(_: sqlite3.Connection) -> None:
    """The lane connects before its first work."""


def _open_holds(_: sqlite3.Connection, path: Path) -> Holds:
    """After the connection, which makes the folder."""
    return Holds(path)


def _rows(connection: sqlite3.Connection, statement: str, *values: object) -> list[Row]:
    """All rows at once: a statement left half-way, by a row that cannot be read, say, would keep its
    transaction open and every later read in the past.
    """
    return connection.execute(statement, values).fetchall()


def _conversation(connection: sqlite3.Connection, conversation: str) -> Conversation | None:
    return next(map(conversation_from_row, _rows(connection, CONVERSATION, conversation)), None)


def _session(connection: sqlite3.Connection, tenant: str, session: str) -> Conversation | None:
    return next(map(conversation_from_row, _rows(connection, SESSION, tenant, session)), None)


def _chain(connection: sqlite3.Connection, leaf: str) -> list[Turn]:
    chain = [turn_from_row(row) for row in _rows(connection, CHAIN, leaf)]
    if not chain:
        raise NotFound(f"there is no turn {leaf}")
    check_chain(chain, leaf)
    return chain


def _find(connection: sqlite3.Connection, tenant: str, digests: Sequence[bytes]) -> list[Turn]:
    for digest in digests:
        for (turn,) in _rows(connection, FIND, digest, tenant):
            with contextlib.suppress(NotFound):  # expired since it was found
                return _chain(connection, turn)
    return []


def _add(connection: sqlite3.Connection, conversation: Conversation, turn: Turn) -> None:
    with transaction(connection):
        if _insert(connection, conversation, turn):
            connection.execute(
                "UPDATE conversations SET used = max(used, ?) WHERE id = ?", (turn.created, conversation.id)
            )


def _advance(connection: sqlite3.Connection, conversation: Conversation, turn: Turn) -> None:
    with transaction(connection):
        if not _insert(connection, conversation, turn):
            return
        moved = connection.execute(
            "UPDATE conversations SET leaf = ?, used = max(used, ?) WHERE id = ? AND leaf IS ?",
            (turn.id, turn.created, conversation.id, turn.parent),
        )
        if not moved.rowcount:
            raise TurnConflict(f"conversation {conversation.id} went on from {turn.parent} before turn {turn.id} ended")


def _insert(connection: sqlite3.Connection, conversation: Conversation, turn: Turn) -> bool:
    """False when this very turn is already there. Raises NotFound, TurnConflict."""
    assert turn.conversation == conversation.id, "a turn is saved with its own conversation"
    try:
        if turn.parent is None:
            connection.execute(
                f"INSERT INTO conversations ({CONVERSATION_COLUMNS}) VALUES (?, ?, ?, ?, ?, NULL) "
                "ON CONFLICT (id) DO NOTHING",
                (
                    conversation.id,
                    conversation.tenant,
                    conversation.created,
                    conversation.used,
                    conversation.session,
                ),
            )
        inserted = connection.execute(INSERT_TURN, turn_to_row(turn)).rowcount
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorname == "SQLITE_CONSTRAINT_FOREIGNKEY":
            raise NotFound(f"turn {turn.parent} of conversation {conversation.id} is gone") from error
        raise TurnConflict(f"turn {turn.id} of conversation {conversation.id} is refused: {error}") from error
    if inserted:
        return True
    stored = _rows(connection, f"SELECT {TURN_COLUMNS} FROM turns WHERE id = ?", turn.id)
    if turn_from_row(stored[0]) != turn:
        raise TurnConflict(f"another turn is already stored as {turn.id}")
    return False


def _idle(connection: sqlite3.Connection, before: float, skip: Collection[str], limit: int) -> list[str]:
    return [row[0] for row in _rows(connection, IDLE, before, json.dumps(list(skip)), limit)]


def _expire(connection: sqlite3.Connection, before: float, conversations: Sequence[str]) -> int:
    with transaction(connection):
        return connection.execute(EXPIRE, (before, json.dumps(list(conversations)))).rowcount
