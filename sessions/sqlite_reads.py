"""What is asked of the SQLite file: functions of one connection, each one statement or harmless between two."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Collection, Iterator, Sequence

from sessions.chains import check_chain
from sessions.rows import CONVERSATION_COLUMNS, TURN_COLUMNS, Row, conversation_from_row, turn_from_row
from sessions.store import NotFound
from sessions.turns import Conversation, Turn, wordless

COLUMNS_OF_TURNS = ", ".join(f"turns.{column}" for column in TURN_COLUMNS.split(", "))
CHAIN = f"""
    WITH RECURSIVE chain (depth, number, parent) AS (
        SELECT 0, number, parent FROM turns WHERE id = ?
        UNION ALL
        SELECT depth + 1, turns.number, turns.parent FROM chain JOIN turns ON turns.id = chain.parent
    )
    SELECT {COLUMNS_OF_TURNS} FROM chain JOIN turns ON turns.number = chain.number ORDER BY depth DESC
"""
TURN = f"""
    SELECT {COLUMNS_OF_TURNS} FROM turns JOIN conversations ON conversations.id = turns.conversation
    WHERE turns.id = ? AND conversations.tenant = ? AND NOT turns.hidden
"""
CONVERSATION = f"SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE id = ?"
SESSION = f"SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE tenant = ? AND session = ?"
PLACE = "SELECT created, id FROM conversations WHERE tenant = ? AND id = ? AND session IS NOT NULL"
LATEST_USE = PLACE.replace("created", "used")
NEWEST = f"""
    SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE tenant = ? AND session IS NOT NULL
    ORDER BY created DESC, id DESC LIMIT ?
"""
OLDER = f"""
    SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE tenant = ? AND session IS NOT NULL AND (created, id) < (?, ?)
    ORDER BY created DESC, id DESC LIMIT ?
"""
RECENT = f"""
    SELECT {CONVERSATION_COLUMNS} FROM conversations WHERE tenant = ? AND session IS NOT NULL AND (used, id) < (?, ?)
    ORDER BY used DESC, id DESC LIMIT ?
"""
TURNS = f"SELECT {TURN_COLUMNS}, hidden FROM turns WHERE conversation = ? ORDER BY number"
FIND = """
    SELECT turns.id FROM turns JOIN conversations ON conversations.id = turns.conversation
    WHERE turns.digest = ? AND conversations.tenant = ? ORDER BY turns.number DESC LIMIT 1
"""
IDLE = """
    SELECT id FROM conversations WHERE session IS NULL AND used < ?
    AND id NOT IN (SELECT value FROM json_each(?)) ORDER BY used LIMIT ?
"""


def rows(connection: sqlite3.Connection, statement: str, *values: object) -> list[Row]:
    """All rows at once: a statement left half-way, by a row that cannot be read, say, would keep its
    transaction open and every later read in the past.
    """
    return connection.execute(statement, values).fetchall()


def conversation(connection: sqlite3.Connection, name: str) -> Conversation | None:
    return next(map(conversation_from_row, rows(connection, CONVERSATION, name)), None)


def session(connection: sqlite3.Connection, tenant: str, name: str) -> Conversation | None:
    return next(map(conversation_from_row, rows(connection, SESSION, tenant, name)), None)


def opened(connection: sqlite3.Connection, tenant: str, name: str) -> tuple[Conversation, list[Turn]] | None:
    with one_moment(connection):
        found = session(connection, tenant, name)
        return None if found is None else (found, chain(connection, found.leaf) if found.leaf else [])


@contextlib.contextmanager
def one_moment(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is read in the block is as it was at its first read."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:  # a disk that fails has ended it
            connection.execute("COMMIT")


def conversations(connection: sqlite3.Connection, tenant: str, after: str | None, limit: int) -> list[Conversation]:
    if after is None:
        return [conversation_from_row(row) for row in rows(connection, NEWEST, tenant, limit)]
    place = rows(connection, PLACE, tenant, after)
    if not place:
        raise NotFound("the conversation that the list is to go on after is not there")
    return [conversation_from_row(row) for row in rows(connection, OLDER, tenant, *place[0], limit)]


def latest_use(connection: sqlite3.Connection, tenant: str, after: str | None) -> tuple[float, str]:
    """Where the list by last use goes on. Raises NotFound."""
    if after is None:
        return math.inf, ""
    place = rows(connection, LATEST_USE, tenant, after)
    if not place:
        raise NotFound("the conversation that the list is to go on after is not there")
    return place[0][0], place[0][1]


def recent(connection: sqlite3.Connection, tenant: str, after: str | None, limit: int) -> list[Conversation]:
    place = latest_use(connection, tenant, after)
    return [conversation_from_row(row) for row in rows(connection, RECENT, tenant, *place, limit)]


def turns(connection: sqlite3.Connection, conversation: str) -> list[Turn]:
    """Nothing comes before its parent: it could not be stored before it."""
    found = [(turn_from_row(row[:-1]), row[-1]) for row in rows(connection, TURNS, conversation)]
    return [wordless(turn) if hidden else turn for turn, hidden in found]


def turn(connection: sqlite3.Connection, tenant: str, name: str) -> Turn | None:
    return next(map(turn_from_row, rows(connection, TURN, name, tenant)), None)


def chain(connection: sqlite3.Connection, leaf: str) -> list[Turn]:
    turns = [turn_from_row(row) for row in rows(connection, CHAIN, leaf)]
    if not turns:
        raise NotFound(f"there is no turn {leaf}")
    check_chain(turns, leaf)
    return turns


def find(connection: sqlite3.Connection, tenant: str, digests: Sequence[bytes]) -> list[Turn]:
    for digest in digests:
        for (name,) in rows(connection, FIND, digest, tenant):
            with contextlib.suppress(NotFound):  # expired since it was found
                return chain(connection, name)
    return []


def idle(connection: sqlite3.Connection, before: float, skip: Collection[str], limit: int) -> list[str]:
    return [row[0] for row in rows(connection, IDLE, before, json.dumps(list(skip)), limit)]
