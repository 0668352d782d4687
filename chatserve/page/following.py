"""What becomes of a conversation, told for as long as a page is open."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chatserve.page.conversations import named
from chatserve.page.event_stream import EventStream
from chatserve.page.relay import Relay
from chatserve.page.watch import Watch
from chatserve.server.finding import no_conversation, reading
from chatserve.server.limits import ServerLimits
from chatserve.server.running import RunningTurns
from chatserve.server.tenants import tenant_of
from sessions.manager import SessionManager
from sessions.turns import Conversation


class Following:
    def __init__(self, sessions: SessionManager, running: RunningTurns, relay: Relay, limits: ServerLimits) -> None:
        self._sessions = sessions
        self._running = running
        self._relay = relay
        self._rooms = relay.rooms
        self._limits = limits

    def routes(self) -> list[Route]:
        return [Route("/page/conversations/{conversation_id}/events", self.events, methods=["GET"])]

    async def events(self, request: Request) -> Response:
        """From how it is now on. A page that asks again is told the same again: nothing is to be resumed."""
        tenant, name = tenant_of(request), named(request)
        with reading(no_conversation(name)):
            found = await self._sessions.catalogue.conversation(tenant, name)
            busy = bool(await self._sessions.running(tenant, [found]))
        if self._rooms.running(name) is None:
            self._running.check_open()
        return EventStream(self._follow(found, busy=busy), self._limits)

    async def _follow(self, found: Conversation, *, busy: bool) -> AsyncIterator[bytes]:
        """All of it here, so that whoever never begins to read leaves nothing behind."""
        room = self._rooms.of(found.id)
        if not room.watched:
            room.elsewhere = busy and room.shown is None and not room.opening
            room.watch(Watch(self._sessions, self._running, self._relay, found).run(room))
        follower = room.join()
        if room.elsewhere:
            self._relay.ask(found.id, room)
        try:
            async for event in follower.events():
                yield event
        finally:
            room.leave(follower)
            self._rooms.let_go(found.id)
