"""Looks at a conversation's place in the store while somebody shows it: what others do to it is known only there."""

from __future__ import annotations

import asyncio
from typing import Final

from chatserve.page.live_wire import Changed
from chatserve.page.rooms import Room, Rooms
from chatserve.server.running import RunningTurns
from sessions.manager import SessionManager
from sessions.store import NotFound, StoreError
from sessions.turns import Conversation, title_of

EVERY: Final = 1.0
"""Seconds between two looks; each is a read by key."""


class Watch:
    """Of one conversation, in whatever process its turns run and from whatever client they come."""

    def __init__(self, sessions: SessionManager, running: RunningTurns, rooms: Rooms, found: Conversation) -> None:
        self._sessions = sessions
        self._running = running
        self._rooms = rooms
        self._seen = found

    async def run(self, room: Room) -> None:
        """Until the conversation is gone, or the server is leaving and has nothing more to tell."""
        while not room.gone:
            await asyncio.sleep(EVERY)
            if self._running.closed and room.turn is None:
                room.close()
                return
            try:
                now = await self._sessions.catalogue.conversation(self._seen.tenant, self._seen.id)
                busy = bool(await self._sessions.running(now.tenant, [now]))
            except NotFound:
                self._rooms.deleted(self._seen.id)
            except StoreError:
                continue  # it may be back the next time
            else:
                self._compare(room, now, elsewhere=busy and room.turn is None and not room.opening)

    def _compare(self, room: Room, now: Conversation, *, elsewhere: bool) -> None:
        before, self._seen = self._seen, now
        if title_of(now) != title_of(before):
            self._rooms.renamed(now.id, title_of(now))
        if elsewhere != room.elsewhere:
            room.elsewhere = elsewhere
            room.tell(room.state())
        if now.leaf not in (before.leaf, room.own):
            room.tell(Changed())
