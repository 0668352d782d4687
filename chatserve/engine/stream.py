"""One answer as it arrives from the engine."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable

from chatserve.engine.messages import Delta
from chatserve.engine.port import EngineDied


class Stream:
    """What has arrived waits here for its reader, joined to one delta: four bytes a token, however slow the reader.

    stop: tells the engine to end the request with this id, and how much of it was kept.
    """

    def __init__(self, request_id: str, stop: Callable[[str, int | None], None]) -> None:
        self._id = request_id
        self._stop = stop
        self._tokens = array("i")
        self._cached: int | None = None
        self._last: Delta | None = None
        self._arrived = asyncio.Event()
        self._error: EngineDied | None = None
        self._stopped = False

    def put(self, delta: Delta) -> None:
        """Something arrived."""
        self._tokens.extend(delta.tokens)
        self._cached = delta.cached if self._cached is None else self._cached
        self._last = delta
        self._arrived.set()

    def fail(self, error: EngineDied) -> None:
        """Nothing more will arrive."""
        self._error = error
        self._arrived.set()

    async def __aiter__(self) -> AsyncIterator[Delta]:
        """Yields what has arrived since the last time as one delta, until one has `finish`. Raises EngineDied."""
        while not self._stopped:
            await self._arrived.wait()
            self._arrived.clear()
            if self._last is not None and not self._stopped:
                delta = self._take(self._last)
                yield delta
                if delta.finish is not None:
                    return
            if self._error is not None and not self._stopped:
                raise self._error

    def stop(self, keep: int | None = None) -> None:
        """End the answer; its first `keep` tokens were kept (None: all). Nothing more is yielded. Twice is harmless."""
        if not self._stopped:
            self._stopped = True
            self._arrived.set()
            self._stop(self._id, keep)

    def _take(self, last: Delta) -> Delta:
        delta = Delta(
            id=self._id,
            tokens=tuple(self._tokens),
            finish=last.finish,
            cached=self._cached,
            completion_tokens=last.completion_tokens,
            error=last.error,
        )
        self._tokens, self._cached, self._last = array("i"), None, None
        return delta
