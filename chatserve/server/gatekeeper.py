"""Nothing is reached without a key but the few routes that are public: a new route is closed until it is listed."""

from __future__ import annotations

from collections.abc import Set
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from chatserve.server.errors import Forbidden, Unauthorized, error_response
from chatserve.server.keys import KeyRing
from chatserve.server.visit import Caller, visit_in

PUBLIC: Final = frozenset(("/health", "/ready"))
METRICS: Final = "/metrics"
"""Public where the operator says so."""


class Gatekeeper:
    """Pure ASGI. public: paths as they are written; any other spelling of them is closed."""

    def __init__(self, app: ASGIApp, keys: KeyRing, public: Set[str]) -> None:
        self._app = app
        self._keys = keys
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            secret = _bearer(Headers(scope=scope))
            caller = self._keys.holder(secret) if secret else None
            if caller is not None:
                visit_in(scope).caller = caller
            elif scope["path"] not in self._public:
                await error_response(_refusal(secret))(scope, receive, send)
                return
        await self._app(scope, receive, send)


def check_admin(caller: Caller) -> None:
    """Raises Forbidden."""
    if not caller.admin:
        raise Forbidden("This route is for the server's operator; the API key is not an admin's.", code="admin_only")


def _bearer(headers: Headers) -> str:
    """The secret that was sent; empty when there is none, or more than one."""
    sent = headers.getlist("authorization")
    scheme, _, secret = sent[0].strip().partition(" ") if len(sent) == 1 else ("", "", "")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _refusal(secret: str) -> Unauthorized:
    if secret:
        return Unauthorized("The API key is not known here.", code="invalid_api_key")
    return Unauthorized("This server asks for an API key: send Authorization: Bearer KEY.", code="missing_api_key")
