"""A turn as server-sent events: every data line is JSON or the end mark, pings are comments."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from chatserve.server.disconnect import gone
from chatserve.server.errors import ApiError
from chatserve.server.limits import ServerLimits
from chatserve.server.request_log import body_send
from chatserve.server.turn import Turn
from chatserve.server.wire import FinishReason, Usage

logger = logging.getLogger(__name__)

_HEADERS: Final = {"Cache-Control": "no-cache", "Connection": "keep-alive", "X-Accel-Buffering": "no"}
_PING: Final = b": ping\n\n"


class Frames(Protocol):
    """One endpoint's events, each whole: a data line of JSON and the blank line after it.

    done: the mark after the last event, where the endpoint has one; empty where it has none.
    """

    done: bytes

    def opening(self) -> bytes | None:
        """What comes before any text, if anything does."""

    def text(self, text: str) -> bytes: ...

    def ending(self, reason: FinishReason | None) -> bytes:
        """What follows the last text. None: its owner cancelled it."""

    def failure(self, error: ApiError) -> bytes:
        """What ends a stream instead, whatever came before."""

    def usage(self, usage: Usage) -> bytes | None:
        """The last chunk, where it was asked for."""


class TurnStream(Response):
    """Streams one turn and ends it with the response, however that ends.

    Pings begin with the headers, so a long prefill does not look dead. A reader that takes nothing for `send_seconds`
    is let go; what it took is saved.
    """

    media_type = "text/event-stream"

    def __init__(self, turn: Turn, frames: Frames, limits: ServerLimits) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._turn = turn
        self._frames = frames
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = _Writer(body_send(scope, send))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            await _first_of(_write(self._turn, self._frames, writer), gone(receive), self._watch(writer))
        finally:
            self._turn.abandon()  # here too: a task that never began runs no clean-up of its own

    async def _watch(self, writer: _Writer) -> None:
        """Return when the reader has left the stream unread for too long. One timer for all of its events."""
        now = asyncio.get_running_loop().time
        while True:
            limit = self._limits.send_seconds if writer.sending else self._limits.ping_seconds
            left = writer.since + limit - now()
            if left > 0:
                await asyncio.sleep(left)
            elif writer.sending or not await self._ping(writer):
                break
        logger.warning(
            "turn %s: its reader took nothing for %s s and was let go", self._turn.id, self._limits.send_seconds
        )

    async def _ping(self, writer: _Writer) -> bool:
        """Whether it could be sent."""
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                await writer.send(_PING)
        except TimeoutError:
            return False
        return True


class _Writer:
    """Sends events, and knows since when it has been sending, or has not."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._now = asyncio.get_running_loop().time
        self.sending = False
        self.since = self._now()

    async def send(self, event: bytes, *, more: bool = True) -> None:
        self.sending, self.since = True, self._now()
        await self._send({"type": "http.response.body", "body": event, "more_body": more})
        self.sending, self.since = False, self._now()


async def _write(turn: Turn, frames: Frames, writer: _Writer) -> None:
    """The turn from its first event to its last."""
    try:
        opening = frames.opening()
        if opening is not None:
            await writer.send(opening)
        while (text := await turn.read()) is not None:
            await writer.send(frames.text(text))
        await turn.finish()  # saved before the client can know that it ended, and send the next turn
        await writer.send(frames.ending(turn.finish_reason))
        usage = frames.usage(turn.usage)
        if usage is not None:
            await writer.send(usage)
        if frames.done:
            await writer.send(frames.done)
    except ApiError as error:
        turn.abandon()
        await turn.settled()
        await writer.send(frames.failure(error))
    finally:
        turn.abandon()
    await writer.send(b"", more=False)


async def _first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Do several things until one of them ends, and raise what it raised."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()  # no effect on what is done
        await asyncio.wait(tasks)
    for task in done:
        task.result()
