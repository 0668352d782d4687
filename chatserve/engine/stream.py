"""One answer as it arrives from the engine."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable

from chatserve.engine.messages import Delta, Reuse
from chatserve.engine.port import EngineDied


class Stream:
    """What has arrived waits here for its one reader, joined to one delta: four bytes a token, however slow the reader.

    stop: tells the engine to end the request with this id, and how much of it was kept.
    """

    def __init__(self, request_id: str, stop: Callable[[str, int | None], None]) -> None:
        self._id = request_id
        self._stop = stop
        self._last: Delta | None = None
        self._earlier: array[int] | None = None  # tokens that came before those of `_last`
        self._reuse: Reuse | None = None
        self._reader: asyncio.Future[None] | None = None
        self._error: EngineDied | None = None
        self._ended = False

    def put(self, delta: Delta) -> None:
        """Something arrived."""
        if self._last is not None:
            if self._earlier is None:
                self._earlier, self._reuse = array("i"), self._last.reuse
            self._earlier.extend(self._last.tokens)
        self._last = delta
        self._wake()

    def fail(self, error: EngineDied) -> None:
        """Nothing more will arrive."""
        self._error = error
        self._wake()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Delta:
        """What has arrived since the last time, as one delta; the last one has `finish`. Raises EngineDied."""
        while not self._ended:
            if self._last is not None:
                delta = self._take(self._last)
                self._ended = delta.finish is not None
                return delta
            if self._error is not None:
                raise self._error
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        raise StopAsyncIteration

    def stop(self, keep: int | None = None) -> None:
        """End the answer; its first `keep` tokens were kept (None: all). Nothing more is yielded. Twice is harmless."""
        stop, self._stop = self._stop, _nothing
        self._ended = True
        self._wake()
        stop(self._id, keep)

    def _wake(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None and not reader.done():  # a reader that was cancelled is done
            reader.set_result(None)

    def _take(self, last: Delta) -> Delta:
        earlier, reuse = self._earlier, self._reuse
        self._last = self._earlier = self._reuse = None
        if earlier is None:
            return last
        earlier.extend(last.tokens)
        return Delta(
            id=self._id,
            tokens=tuple(earlier),
            finish=last.finish,
            reuse=reuse,
            completion_tokens=last.completion_tokens,
            error=last.error,
        )


def _nothing(_request_id: str, _keep: int | None) -> None:
    """An answer is stopped once."""
