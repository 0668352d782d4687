"""Conversations that are followed in one API process and answered in another one of the same server.

Whoever follows asks, again and again; whoever answers tells all others for a while. Who answers is a follower's
business only: the turn does not know that somebody far away looks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from chatserve.page.follower import Follower
from chatserve.page.growing import Grown as Changes
from chatserve.page.live_wire import Begun, Ended, Event, Failed, Grown
from chatserve.page.rooms import Room, Rooms

LEASE: Final = 5.0
"""Seconds for which one who has asked is told; several looks of a `Watch`."""


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Somebody here follows this. anew: and knows nothing of the turn that runs in it."""

    conversation: str
    anew: bool


class Started(msgspec.Struct, frozen=True, tag=True):
    """A turn has begun here; ask, if you want to hear of it."""

    conversation: str


class Told(msgspec.Struct, frozen=True, tag=True):
    """What my own followers are told."""

    conversation: str
    event: Event


_said: Final = msgspec.json.Decoder(Ask | Started | Told)


@dataclass(slots=True)
class _Far:
    """All other processes, as one follower. until: when they must have asked again."""

    follower: Follower
    until: float
    telling: asyncio.Task[None]


class Relay:
    """send: to all other processes; None: there are none."""

    def __init__(
        self,
        rooms: Rooms,
        send: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rooms = rooms
        self._send = send
        self._clock = clock
        self._far: dict[str, _Far] = {}

    def ask(self, conversation: str, room: Room) -> None:
        """For a room whose turn is made elsewhere, now and as long as it is."""
        self._say(Ask(conversation, anew=room.far is None))

    def started(self, conversation: str) -> None:
        """A turn has begun in this process."""
        self._say(Started(conversation))

    def hear(self, said: str) -> None:
        """From another process."""
        heard = _said.decode(said)
        room = self.rooms.known(heard.conversation)
        if room is None:
            return
        match heard:
            case Ask():
                self._tell_far(heard, room)
            case Started() if room.followers and room.turn is None:
                self.ask(heard.conversation, room)
            case Told() if room.followers and room.turn is None:
                _retell(room, heard.event)

    def _tell_far(self, ask: Ask, room: Room) -> None:
        if room.turn is None:
            return
        far = self._far.get(ask.conversation)
        if far is None:
            follower = room.join()
            telling = asyncio.create_task(self._pass_on(ask.conversation, room, follower))
            self._far[ask.conversation] = _Far(follower, self._clock() + LEASE, telling)
            return
        far.until = self._clock() + LEASE
        if ask.anew:
            room.recall(far.follower)

    async def _pass_on(self, conversation: str, room: Room, follower: Follower) -> None:
        """As long as somebody asks, and there is something to hear."""
        try:
            async for event in follower.told():
                self._say(Told(conversation, event))
                if self._clock() > self._far[conversation].until or not room.untold:
                    return
        finally:
            del self._far[conversation]
            room.leave(follower)
            self.rooms.let_go(conversation)

    def _say(self, message: Ask | Started | Told) -> None:
        if self._send is not None:
            self._send(msgspec.json.encode(message).decode())


def _retell(room: Room, event: Event) -> None:
    """What is only of the other process's own, or is seen in the store anyway, is left out."""
    match event:
        case Begun() if room.running != event.turn.id:
            room.begin_far(event.turn)
        case Grown() if room.far is not None and room.running == event.id:
            room.far.show(Changes(event.start, event.blocks, event.thinking_html), event.tokens)
            room.grew(room.far, event.start)
        case Ended() if room.far is not None and room.running == event.turn.id:
            room.end(room.far, event)
        case Failed() if room.far is not None and room.running == event.id:
            room.end(room.far, event)
