"""Refuses a caller who has used up their minute, and notes what the others use."""

from __future__ import annotations

import math
from collections.abc import Set

from starlette.types import ASGIApp, Receive, Scope, Send

from chatserve.server.errors import OverRate, error_response
from chatserve.server.meters import Meters, Wait
from chatserve.server.visit import Rates, Visit, visit_in


class RateLimit:
    """Pure ASGI, behind whatever says who is asking. public: paths that are never counted."""

    def __init__(self, app: ASGIApp, meters: Meters, public: Set[str]) -> None:
        self._app = app
        self._meters = meters
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._public or visit_in(scope).caller.rates == Rates():
            await self._app(scope, receive, send)
            return
        visit = visit_in(scope)
        wait = self._meters.enter(visit.caller)
        if wait is not None:
            await error_response(_refusal(wait))(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._meters.charge(visit.caller, computed_tokens(visit))


def computed_tokens(visit: Visit) -> int:
    """What the engine computed for a request: the prompt without what was reused, and the answer."""
    usage = visit.usage
    return 0 if usage is None else usage.total_tokens - usage.prompt_tokens_details.cached_tokens


def _refusal(wait: Wait) -> OverRate:
    return OverRate(
        f"The limit of {wait.limit} {wait.what} a minute is used up; try again in {math.ceil(wait.seconds)} s.",
        wait=wait.seconds,
    )
