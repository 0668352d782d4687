"""A turn as server-sent events: every data line is JSON or the end mark, pings are comments."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Protocol

from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.types import Receive, Scope, Send

from chatserve.server.errors import ApiError, error_body
from chatserve.server.limits import ServerLimits
from chatserve.server.turn import Turn
from chatserve.server.wire import FinishReason, Usage

logger = logging.getLogger(__name__)

_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


class Frames(Protocol):
    """One endpoint's events, as JSON."""

    def opening(self) -> bytes | None:
        """What comes before any text, if anything does."""

    def text(self, text: str) -> bytes: ...

    def ending(self, reason: FinishReason) -> bytes: ...

    def usage(self, usage: Usage) -> bytes | None:
        """The last chunk, where it was asked for."""


class TurnStream(EventSourceResponse):
    """Streams one turn and ends it with the response, however that ends.

    Pings begin with the headers, so a long prefill does not look dead. A reader that takes nothing for `send_seconds`
    is let go; what it took is saved.
    """

    def __init__(self, turn: Turn, frames: Frames, limits: ServerLimits) -> None:
        super().__init__(
            _events(turn, frames),
            headers=_HEADERS,
            ping=limits.ping_seconds,
            ping_message_factory=_ping,
            send_timeout=limits.send_seconds,
            sep="\n",
        )
        self._turn = turn

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            logger.warning("turn %s: its reader took nothing for %s s and was let go", self._turn.id, self.send_timeout)
        finally:
            self._turn.abandon()  # here too: a generator that never began runs no clean-up of its own


async def _events(turn: Turn, frames: Frames) -> AsyncIterator[bytes]:
    try:
        opening = frames.opening()
        if opening is not None:
            yield _data(opening)
        while (text := await turn.read()) is not None:
            yield _data(frames.text(text))
        await turn.finish()  # saved before the client can know that it ended, and send the next turn
        assert turn.finish_reason is not None
        yield _data(frames.ending(turn.finish_reason))
        usage = frames.usage(turn.usage)
        if usage is not None:
            yield _data(usage)
        yield _data(b"[DONE]")
    except ApiError as error:
        yield _data(error_body(error))
    finally:
        turn.abandon()


def _data(line: bytes) -> bytes:
    assert b"\n" not in line, "JSON escapes line ends"
    return b"data: " + line + b"\n\n"


def _ping() -> ServerSentEvent:
    return ServerSentEvent(comment="ping", sep="\n")
