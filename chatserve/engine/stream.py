"""One answer as it arrives from the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import chain

from chatserve.engine.messages import Delta
from chatserve.engine.port import EngineDied


class Stream:
    """Deltas wait here for their reader; they hold token ids only, at most max_tokens of them.

    stop: tells the engine to end the request with this id, and how much of it was kept.
    """

    def __init__(self, request_id: str, stop: Callable[[str, int | None], None]) -> None:
        self._id = request_id
        self._stop = stop
        self._waiting: list[Delta] = []
        self._arrived = asyncio.Event()
        self._error: EngineDied | None = None
        self._stopped = False

    def put(self, delta: Delta) -> None:
        """Something arrived."""
        self._waiting.append(delta)
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
            if self._waiting:
                delta = merged(self._waiting)
                self._waiting = []
                yield delta
                if delta.finish is not None:
                    return
            if self._error is not None:
                raise self._error

    def stop(self, keep: int | None = None) -> None:
        """End the answer; its first `keep` tokens were kept (None: all). Twice is harmless."""
        if not self._stopped:
            self._stopped = True
            self._stop(self._id, keep)


def merged(deltas: list[Delta]) -> Delta:
    """Several steps' deltas of one stream as one."""
    last = deltas[-1]
    return Delta(
        id=last.id,
        tokens=tuple(chain.from_iterable(delta.tokens for delta in deltas)),
        finish=last.finish,
        cached=next((delta.cached for delta in deltas if delta.cached is not None), None),
        completion_tokens=last.completion_tokens,
        error=last.error,
    )
