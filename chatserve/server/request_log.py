"""Begins and ends each request's visit: an id goes out with it, and one line is written about it.

The line holds the route as the server knows it, the key's name, and sizes: no path, header or word that came from a
user.
"""

from __future__ import annotations

import logging
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from chatserve.server.request_id import request_id
from chatserve.server.visit import Caller, Visit, begin_visit

logger = logging.getLogger(__name__)


_BODY_SEND = "chatserve.body_send"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


def body_send(scope: Scope, send: Send) -> Send:
    """Where a body goes once its response has started, past all that only look at the start: an event a token is a lot
    of calls.
    """
    direct: Send = scope.get(_BODY_SEND, send)
    return direct


class RequestLog:
    """Pure ASGI, outermost, so that a disconnect reaches the endpoint and no answer leaves without its id."""

    def __init__(self, app: ASGIApp, anybody: Caller) -> None:
        """anybody: who a request is from until a key says otherwise."""
        self._app = app
        self._anybody = anybody

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = Visit(request_id(Headers(scope=scope).get("x-request-id")), self._anybody)
        began = time.perf_counter()
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = visit.id
            await send(message)

        scope[_BODY_SEND] = send
        begin_visit(scope, visit)
        try:
            await self._app(scope, receive, send_marked)
        finally:
            took = 1e3 * (time.perf_counter() - began)
            logger.info("%s %s -> %d in %.0f ms%s", visit.id, _route(scope), status, took, used(visit))


def _route(scope: Scope) -> str:
    """The method and the route's own path: what a client made up is not repeated."""
    method = scope["method"] if scope["method"] in _METHODS else "OTHER"
    return f"{method} {getattr(scope.get('route'), 'path', '(no route)')}"


def used(visit: Visit) -> str:
    """Whose it was, and the tokens of its turn, as a line goes on."""
    key = f", key {visit.caller.name}" if visit.caller.name else ""
    usage = visit.usage
    if usage is None:
        return key
    cached = usage.prompt_tokens_details.cached_tokens
    return f"{key}, {usage.prompt_tokens} prompt tokens ({cached} reused), {usage.completion_tokens} answered"
