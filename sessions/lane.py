"""One SQLite connection on a thread of its own.

Work runs in the order in which it was handed over, one piece at a time and off the event loop. A piece that
was handed over always runs to its end: cancelling the caller only gives up the answer. So one piece must be
one transaction.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from sessions.schema import transaction
from sessions.store import StoreClosed, StoreUnavailable

P = ParamSpec("P")
T = TypeVar("T")


class Lane:
    """connect: called once, on the lane's thread, before its first work."""

    def __init__(self, name: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._closed = False

    async def run(self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Raises what the work raises; StoreUnavailable for SQLite's and the file system's errors;
        StoreClosed.
        """
        if self._closed:
            raise StoreClosed("the session store is closed")

        def piece() -> T:
            if self._connection is None:
                self._connection = self._connect()
            return work(self._connection, *args, **kwargs)

        try:
            return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, piece))
        except (sqlite3.Error, OSError) as error:
            # SQLite's own errors speak of the file; Python's may quote a record's text.
            quotable = isinstance(error, OSError) or hasattr(error, "sqlite_errorname")
            reason = str(error) if quotable else type(error).__name__
            raise StoreUnavailable(f"the session database failed: {reason}") from error

    async def write(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Like `run`, in a transaction."""

        def whole(connection: sqlite3.Connection) -> T:
            with transaction(connection):
                return work(connection, *args, **kwargs)

        return await self.run(whole)

    async def close(self) -> None:
        """Run what was handed over, then close the connection and end the thread."""
        if self._closed:
            return
        self._closed = True
        closing = asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)
        await asyncio.shield(closing)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
