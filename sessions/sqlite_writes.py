"""What changes in the SQLite file: functions of one connection, each run inside a transaction of its caller's."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

import msgspec

from sessions.rows import CONVERSATION_COLUMNS, TURN_COLUMNS, conversation_to_row, turn_from_row, turn_to_row
from sessions.sqlite_reads import conversation as read_conversation
from sessions.sqlite_reads import rows
from sessions.store import NotFound, TurnConflict, nothing_to_continue
from sessions.turns import Conversation, Turn

INSERT_CONVERSATION_ONCE = f"""
    INSERT INTO conversations ({CONVERSATION_COLUMNS})
    VALUES ({", ".join("?" * len(CONVERSATION_COLUMNS.split(", ")))})
"""
INSERT_TURN_ONCE = f"INSERT INTO turns ({TURN_COLUMNS}) VALUES ({', '.join('?' * len(TURN_COLUMNS.split(', ')))})"
INSERT_CONVERSATION = f"{INSERT_CONVERSATION_ONCE} ON CONFLICT (id) DO NOTHING"
INSERT_TURN = f"{INSERT_TURN_ONCE} ON CONFLICT (id) DO NOTHING"
HIDE = """
    UPDATE turns SET hidden = 1 WHERE id = ? AND NOT hidden
    AND EXISTS (SELECT 1 FROM conversations WHERE id = turns.conversation AND tenant = ?)
    RETURNING conversation
"""
UNUSE_IF_HIDDEN = """
    UPDATE conversations SET used = 0 WHERE id = ? AND session IS NULL
    AND NOT EXISTS (SELECT 1 FROM turns WHERE conversation = conversations.id AND NOT hidden)
"""
EXPIRE = """
    DELETE FROM conversations WHERE session IS NULL AND used < ? AND id IN (SELECT value FROM json_each(?))
"""


def add(connection: sqlite3.Connection, conversation: Conversation, turn: Turn) -> None:
    if _insert(connection, conversation, turn):
        connection.execute("UPDATE conversations SET used = max(used, ?) WHERE id = ?", (turn.created, conversation.id))


def advance(connection: sqlite3.Connection, conversation: Conversation, turn: Turn) -> None:
    if not _insert(connection, conversation, turn):
        return
    moved = connection.execute(
        "UPDATE conversations SET leaf = ?, used = max(used, ?) WHERE id = ? AND leaf IS ?",
        (turn.id, turn.created, conversation.id, conversation.leaf),
    )
    if not moved.rowcount:
        raise TurnConflict(f"conversation {conversation.id} went on from {conversation.leaf} before {turn.id} ended")


def create(connection: sqlite3.Connection, conversation: Conversation, turns: Sequence[Turn]) -> None:
    stored = read_conversation(connection, conversation.id)
    if stored is not None and (stored.tenant, stored.leaf) == (conversation.tenant, conversation.leaf):
        return
    try:
        connection.execute(INSERT_CONVERSATION_ONCE, conversation_to_row(conversation))
        connection.executemany(INSERT_TURN_ONCE, map(turn_to_row, turns))
    except sqlite3.IntegrityError as error:
        raise TurnConflict(f"conversation {conversation.id} is refused: {error}") from error


def update(connection: sqlite3.Connection, tenant: str, name: str, metadata: Mapping[str, str]) -> Conversation:
    changed = connection.execute(
        "UPDATE conversations SET metadata = ? WHERE id = ? AND tenant = ?",
        (msgspec.json.encode(metadata).decode(), name, tenant),
    )
    found = read_conversation(connection, name) if changed.rowcount else None
    if found is None:
        raise NotFound("there is no such conversation")
    return found


def delete(connection: sqlite3.Connection, tenant: str, name: str) -> bool:
    return bool(connection.execute("DELETE FROM conversations WHERE id = ? AND tenant = ?", (name, tenant)).rowcount)


def hide(connection: sqlite3.Connection, tenant: str, turn: str) -> bool:
    hidden = rows(connection, HIDE, turn, tenant)
    for conversation in hidden:
        connection.execute(UNUSE_IF_HIDDEN, conversation)
    return bool(hidden)


def expire(connection: sqlite3.Connection, before: float, conversations: Sequence[str]) -> int:
    return connection.execute(EXPIRE, (before, json.dumps(list(conversations)))).rowcount


def _insert(connection: sqlite3.Connection, conversation: Conversation, turn: Turn) -> bool:
    """False when this very turn is already there. Raises NotFound, TurnConflict."""
    assert turn.conversation == conversation.id, "a turn is saved with its own conversation"
    try:
        if turn.parent is None and conversation.leaf is None:  # one that had a leaf is not to come back
            new = msgspec.structs.replace(conversation, leaf=None)
            connection.execute(INSERT_CONVERSATION, conversation_to_row(new))
        inserted = connection.execute(INSERT_TURN, turn_to_row(turn)).rowcount
    except sqlite3.IntegrityError as error:
        if error.sqlite_errorname == "SQLITE_CONSTRAINT_FOREIGNKEY":
            raise nothing_to_continue(turn) from error
        raise TurnConflict(f"turn {turn.id} of conversation {conversation.id} is refused: {error}") from error
    if inserted:
        return True
    stored = rows(connection, f"SELECT {TURN_COLUMNS} FROM turns WHERE id = ?", turn.id)
    if turn_from_row(stored[0]) != turn:
        raise TurnConflict(f"another turn is already stored as {turn.id}")
    return False
