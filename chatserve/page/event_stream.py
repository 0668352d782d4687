"""A page's event stream: long, quiet, and let go when nobody reads it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.types import Receive, Scope, Send

from chatserve.server.limits import ServerLimits

logger = logging.getLogger(__name__)


class EventStream(EventSourceResponse):
    """events: each whole; closed when the reader has gone, so that it can clean up after itself."""

    def __init__(self, events: AsyncIterator[bytes], limits: ServerLimits) -> None:
        super().__init__(
            events,
            ping=limits.ping_seconds,
            sep="\n",
            ping_message_factory=lambda: ServerSentEvent(comment="ping", sep="\n"),
            send_timeout=limits.send_seconds,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            logger.warning("a page took nothing for %s s and was let go", self.send_timeout)
