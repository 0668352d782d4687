"""The SQLite file: how it is opened, its tables, and how an older file is brought up to date."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sessions.store import NewerFormat

MAPPED_BYTES: Final = 1 << 30
"""The most of a file that is mapped."""

# One entry a format version, in order; a file's `user_version` counts those it has been through. Never edit
# an entry that was released: add one.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """
        CREATE TABLE conversations (
            id TEXT PRIMARY KEY,
            tenant TEXT NOT NULL,
            session TEXT,
            leaf TEXT,
            created REAL NOT NULL,
            used REAL NOT NULL
        ) STRICT
        """,
        """
        CREATE UNIQUE INDEX conversations_by_session ON conversations (tenant, session)
        WHERE session IS NOT NULL
        """,
        "CREATE INDEX conversations_by_idleness ON conversations (used) WHERE session IS NULL",
        """
        CREATE TABLE turns (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
            parent TEXT CHECK (parent <> id),
            digest BLOB NOT NULL,
            messages BLOB NOT NULL,
            answer TEXT NOT NULL,
            prompt_ids BLOB NOT NULL,
            output_ids BLOB NOT NULL,
            restarts INTEGER NOT NULL,
            status TEXT NOT NULL,
            created REAL NOT NULL,
            UNIQUE (conversation, id),
            FOREIGN KEY (conversation, parent) REFERENCES turns (conversation, id)
        ) STRICT
        """,
        "CREATE INDEX turns_by_parent ON turns (conversation, parent)",
        "CREATE INDEX turns_by_digest ON turns (digest, number)",
    ),
    (
        "ALTER TABLE conversations ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}'",
        "CREATE INDEX conversations_by_age ON conversations (tenant, created, id) WHERE session IS NOT NULL",
        "ALTER TABLE turns ADD COLUMN answered INTEGER NOT NULL DEFAULT 1",
        "ALTER TABLE turns ADD COLUMN instructions TEXT",
        "ALTER TABLE turns ADD COLUMN detail BLOB NOT NULL DEFAULT x''",
        "ALTER TABLE turns ADD COLUMN hidden INTEGER NOT NULL DEFAULT 0",
    ),
    ("CREATE INDEX conversations_by_use ON conversations (tenant, used, id) WHERE session IS NOT NULL",),
)


def connect_writer(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """Create the file and its folders where they are missing, readable by their owner only, and bring it up
    to date.

    busy_timeout: seconds to wait for another process's transaction. Raises NewerFormat, sqlite3.Error,
        OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    connection = _connect(path, busy_timeout)
    try:
        _switch_to_wal(connection, busy_timeout)
        # In WAL mode a killed process loses nothing with NORMAL; a power cut may lose the last turns, never
        # half of one.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reader(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """A second connection, which never waits for the writer. The file must be up to date."""
    connection = _connect(path, busy_timeout)
    connection.execute("PRAGMA query_only = ON")
    return connection


def connect_searcher(path: Path, busy_timeout: float) -> sqlite3.Connection:
    """A reader for what passes over the whole file: it maps the pages instead of copying each, in half the time."""
    connection = connect_reader(path, busy_timeout)
    connection.execute(f"PRAGMA mmap_size = {MAPPED_BYTES}")
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A write transaction: taken at its beginning (never upgraded half-way), committed at its end or undone."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _connect(path: Path, busy_timeout: float) -> sqlite3.Connection:
    # No isolation level: transactions begin and end where `transaction` says so.
    return sqlite3.connect(path, timeout=busy_timeout, isolation_level=None, check_same_thread=False)


def _switch_to_wal(connection: sqlite3.Connection, busy_timeout: float) -> None:
    """For this switch SQLite's own busy wait does not hold: several who open a new file at once would fail."""
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.005)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    known = len(MIGRATIONS)
    with transaction(connection):  # two processes may open a new file at once
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > known:
            raise NewerFormat(str(path), version, known)
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {known}")
