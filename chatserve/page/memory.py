"""The memory as the page sees it: the caller's part of the rTree, once or for as long as it is watched."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chatserve.engine.port import EnginePort
from chatserve.page.event_stream import EventStream
from chatserve.page.memory_look import MOST_NODES, MemoryLook, Viewer
from chatserve.page.memory_watch import NOTHING, MemoryWatches
from chatserve.page.titles import AT_ONCE, Titles
from chatserve.server.asks import read_salt
from chatserve.server.fields import Fields
from chatserve.server.limits import ServerLimits
from chatserve.server.response_asks import CONVERSATION
from chatserve.server.running import RunningTurns
from chatserve.server.tenants import tenant_of
from chatserve.server.visit import visit_of
from sessions.catalogue import Catalogue
from sessions.store import StoreError


def memory_view_routes(
    engine: EnginePort, catalogue: Catalogue, running: RunningTurns, limits: ServerLimits
) -> list[Route]:
    memory = MemoryRoutes(engine, catalogue, running, limits)
    return [
        Route("/page/memory", memory.get, methods=["GET"]),
        Route("/page/memory/events", memory.events, methods=["GET"]),
    ]


class MemoryRoutes:
    """Both show what the caller's next turn could reuse. Of other tenants only sums are told; and where callers share
    prefixes, whose conversation a node is, only to its owner.
    """

    def __init__(self, engine: EnginePort, catalogue: Catalogue, running: RunningTurns, limits: ServerLimits) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._running = running
        self._limits = limits
        self._watches = MemoryWatches(self._look, running)

    async def get(self, request: Request) -> Response:
        """As it is now. Raises Unavailable."""
        viewer = _viewer(request)
        focus = await self._focus(request, viewer)
        look = self._look(viewer, at_once=MOST_NODES)
        view = await look([focus] if focus != NOTHING else [])
        return Response(msgspec.json.encode(view), media_type="application/json")

    async def events(self, request: Request) -> Response:
        """As it is now, and whenever it has changed; where there is no engine just now, an event says so."""
        self._running.check_open()
        viewer = _viewer(request)
        focus = await self._focus(request, viewer)
        return EventStream(self._watches.events(viewer, focus), self._limits)

    def _look(self, viewer: Viewer, at_once: int = AT_ONCE) -> MemoryLook:
        titles = Titles(self._catalogue, viewer.conversations, at_once=at_once)
        return MemoryLook(self._engine, titles, viewer.prefixes)

    async def _focus(self, request: Request, viewer: Viewer) -> str:
        """The conversation in the query, where it is one of the caller's; of any other there is nothing to show."""
        name = request.query_params.get("conversation", "").removeprefix(CONVERSATION)
        if not name:
            return NOTHING
        try:
            return (await self._catalogue.conversation(viewer.conversations, name)).id
        except StoreError:
            return NOTHING


def _viewer(request: Request) -> Viewer:
    """Raises BadRequest."""
    salt = read_salt(Fields(request.query_params))
    return Viewer(visit_of(request).caller.prefixes(salt), tenant_of(request))
