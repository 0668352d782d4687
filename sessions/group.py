"""Several pieces of work under one commit of SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from sessions.schema import transaction
from sessions.store import StoreError


class Piece:
    """Work and its answer, which nobody gets before the commit."""

    def __init__(self, work: Callable[[sqlite3.Connection], Any], answer: asyncio.Future[Any]) -> None:
        self.answer = answer
        self._work = work
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        """Do it, or undo it alone. Raises sqlite3.Error when SQLite gave up the whole transaction."""
        connection.execute("SAVEPOINT piece")
        try:
            self._result = self._work(connection)
        except (StoreError, sqlite3.Error, ValueError, TypeError) as error:
            if not connection.in_transaction:  # the disk is full, say: what came before is undone too
                raise
            connection.execute("ROLLBACK TO piece")
            self._error = error
        connection.execute("RELEASE piece")

    def fail(self, error: BaseException) -> None:
        """It was undone with all the others."""
        self._error = error

    def settle(self) -> None:
        """Hand the answer over, on the event loop."""
        if self.answer.done():  # its caller has left
            return
        if self._error is None:
            self.answer.set_result(self._result)
        else:
            self.answer.set_exception(self._error)


def commit_together(connection: sqlite3.Connection, pieces: Sequence[Piece]) -> None:
    """All of them in one transaction. When it raises, nothing of any was stored."""
    with transaction(connection):
        for piece in pieces:
            piece.run(connection)


def settle(pieces: Sequence[Piece]) -> None:
    """All at once: waking the event loop costs more than a piece."""
    for piece in pieces:
        piece.settle()


def fail(pieces: Sequence[Piece], error: BaseException) -> None:
    """None of them was stored."""
    for piece in pieces:
        piece.fail(error)
