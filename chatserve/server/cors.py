"""Which pages of other origins a browser lets read the answers: those of the origins that the operator named."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

ANY: Final = "*"
_METHODS: Final = ("GET", "POST", "DELETE")
_SHOWN: Final = ("X-Request-Id", "Retry-After")


class Cors:
    """Pure ASGI, around everything that answers, errors included; a foreign origin meets the server as without it.

    Keys travel in a header that a page must set itself, so credentials of the browser's own are never allowed, and any
    origin (`*`) can be.
    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._origins = origins
        self._allowing = CORSMiddleware(
            app, allow_origins=tuple(origins), allow_methods=_METHODS, allow_headers=("*",), expose_headers=_SHOWN
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = scope["type"] == "http" and self._allows(Headers(scope=scope).get("origin"))
        await (self._allowing if allowed else self._app)(scope, receive, send)

    def _allows(self, origin: str | None) -> bool:
        return origin is not None and (ANY in self._origins or origin in self._origins)
