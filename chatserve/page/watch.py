"""Looks at a conversation's place in the store while somebody shows it: what others do to it is known only there."""

from __future__ import annotations

import asyncio
from typing import Final

from chatserve.page.live_wire import Changed
from chatserve.page.relay import Relay
from chatserve.page.rooms import Room
from chatserve.server.running import RunningTurns
from sessions.manager import SessionManager
from sessions.store import NotFound, StoreError
from sessions.turns import Conversation, title_of

EVERY: Final = 1.0
"""Seconds between two looks; each is a read by key."""
PATIENCE: Final = 3
"""Looks after which a turn is given up that another process has told of and that nobody makes any more."""


class Watch:
    """Of one conversation, in whatever process its turns run and from whatever client they come."""

    def __init__(self, sessions: SessionManager, running: RunningTurns, relay: Relay, found: Conversation) -> None:
        self._sessions = sessions
        self._running = running
        self._relay = relay
        self._seen = found
        self._unmade = 0

    async def run(self, room: Room) -> None:
        """Until the conversation is gone, or the server is leaving and has nothing more to tell."""
        while not room.gone:
            await asyncio.sleep(EVERY)
            if self._running.closed and not room.untold:
                room.close()
                return
            try:
                now = await self._sessions.catalogue.conversation(self._seen.tenant, self._seen.id)
                busy = bool(await self._sessions.running(now.tenant, [now]))
            except NotFound:
                self._relay.rooms.deleted(self._seen.id)
            except StoreError:
                continue  # it may be back the next time
            else:
                self._compare(room, now, foreign=busy and room.turn is None and not room.opening)

    def _compare(self, room: Room, now: Conversation, *, foreign: bool) -> None:
        """foreign: a turn runs that is not made by a page's request to this process."""
        before, self._seen = self._seen, now
        if title_of(now) != title_of(before):
            self._relay.rooms.renamed(now.id, title_of(now))
        if foreign:
            self._relay.ask(now.id, room)
        self._unmade = 0 if foreign or room.far is None else self._unmade + 1
        if self._unmade > PATIENCE:  # whoever made it has died; else its end would have been told
            room.far = None
            room.tell(room.state())
            room.tell(Changed())
        room.stand(elsewhere=foreign and room.far is None)
        if now.leaf not in (before.leaf, room.own):
            room.tell(Changed())
