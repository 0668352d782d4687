"""Gives each request an id and writes one line about it: no path, header or word that came from a user."""

from __future__ import annotations

import logging
import time
import uuid

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)


_BODY_SEND = "chatserve.body_send"


def body_send(scope: Scope, send: Send) -> Send:
    """Where a body goes once its response has started, past all that only look at the start: an event a token is a lot
    of calls.
    """
    direct: Send = scope.get(_BODY_SEND, send)
    return direct


class RequestLog:
    """Pure ASGI, so that a disconnect reaches the endpoint. The id goes out as X-Request-Id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        began = time.perf_counter()
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        scope[_BODY_SEND] = send
        try:
            await self._app(scope, receive, send_marked)
        finally:
            name = getattr(scope.get("endpoint"), "__qualname__", "no route")
            logger.info("%s %s -> %d in %.0f ms", request_id, name, status, 1e3 * (time.perf_counter() - began))
