"""One SQLite connection on a thread of its own.

Work runs in the order in which it was handed over, one piece at a time and off the event loop. A piece that was handed
over always runs to its end: cancelling the caller only gives up the answer. So one piece must be one transaction.

Pieces that write and wait at the same time share one commit: each has a savepoint of its own, so that one that fails is
undone alone, and all are answered after the commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from sessions.group import Piece, commit_together, fail, settle
from sessions.store import StoreClosed, StoreError, StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")

MOST_TOGETHER = 16
"""Pieces under one commit."""


class Lane:
    """connect: called once, on the lane's thread, before its first work."""

    def __init__(self, name: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._waiting: deque[Piece] = deque()
        self._called = False
        self._closed = False

    async def run(self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Raises what the work raises; StoreUnavailable for SQLite's and the file system's errors;
        StoreClosed.
        """
        self._check_open()
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._thread, lambda: work(self._connected(), *args, **kwargs))
        return await _answer(asyncio.shield(running))

    async def write(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Like `run`, in a transaction: all of the work is committed when this returns, or none when it raises."""
        self._check_open()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._waiting.append(Piece(lambda connection: work(connection, *args, **kwargs), answer))
        if not self._called:
            self._called = True
            self._thread.submit(self._write_waiting, loop)
        return await _answer(answer)

    async def close(self) -> None:
        """Run what was handed over, then close the connection and end the thread."""
        if self._closed:
            return
        self._closed = True
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)
        await asyncio.shield(closing)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("the session store is closed")

    def _write_waiting(self, loop: asyncio.AbstractEventLoop) -> None:
        """As many as there are by now, and then those that came meanwhile."""
        self._called = False  # first: whoever comes from now on calls again
        while self._waiting:
            pieces = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
            try:
                commit_together(self._connected(), pieces)
            except (StoreError, sqlite3.Error, OSError) as error:
                fail(pieces, error)
            except BaseException as error:  # a mistake of ours: nobody is left waiting
                pieces += self._waiting
                self._waiting.clear()
                fail(pieces, error)
                raise
            finally:
                with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                    loop.call_soon_threadsafe(settle, pieces)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()


async def _answer(work: asyncio.Future[T]) -> T:
    try:
        return await work
    except (sqlite3.Error, OSError) as error:
        # SQLite's own errors speak of the file; Python's may quote a record's text.
        quotable = isinstance(error, OSError) or hasattr(error, "sqlite_errorname")
        reason = str(error) if quotable else type(error).__name__
        raise StoreUnavailable(f"the session database failed: {reason}") from error
