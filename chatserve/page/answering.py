"""A turn that belongs to the server: it is read to its end and saved whoever looks, and whoever does not."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

from chatserve.page.live_turn import LiveTurn, Pace
from chatserve.page.live_wire import BegunView, Ended, Failed
from chatserve.page.renderings import Renderings
from chatserve.page.rooms import Room
from chatserve.page.tree_wire import Settings
from chatserve.page.views import message_view, turn_view
from chatserve.server.errors import ApiError, error_body
from chatserve.server.finding import no_response, reading
from chatserve.server.response_asks import RESPONSE
from chatserve.server.turn import Turn
from sessions.catalogue import Catalogue
from sessions.turns import Message

logger = logging.getLogger(__name__)
T = TypeVar("T")

MOST_OFTEN: Final = 0.1
"""Seconds between two looks at a growing answer, at least."""
LEISURE: Final = 4.0
"""What a look has cost times this is how long the next one waits."""
CHARACTERS_A_SECOND: Final = 200_000
"""Of HTML to one page; a long block that goes on growing is shown less often."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page asked for, as it is shown until it is answered."""

    tenant: str
    messages: Sequence[Message]
    parent: str | None
    instructions: str | None
    settings: Settings


class Answering:
    """Makes a room's turn and tells its followers. None of them slows it: they are told, and read for themselves."""

    def __init__(self, catalogue: Catalogue, renderings: Renderings) -> None:
        self._catalogue = catalogue
        self._renderings = renderings
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="render-live")

    async def run(self, turn: Turn, live: LiveTurn, room: Room, asked: Asked, pace: Pace) -> None:
        """From its first token until it is saved and everybody knows."""
        opening = asyncio.create_task(self._open(live, room, asked))
        showing = asyncio.create_task(self._show(live, room, opening))
        try:
            said = await self._ending(turn, live, asked, pace)
            await opening
        finally:
            showing.cancel()
            await asyncio.wait((showing,))
        room.end(live, said)

    async def _ending(self, turn: Turn, live: LiveTurn, asked: Asked, pace: Pace) -> Ended | Failed:
        try:
            while (text := await turn.read()) is not None:
                tokens = turn.usage.completion_tokens
                pace.note(tokens)
                live.hear(text, tokens)
            await turn.finish()
            return await self._ended(asked.tenant, turn.id)
        except ApiError as error:
            turn.abandon()
            await turn.settled()
            return Failed(id=RESPONSE + turn.id, error=error_body(error).error)

    async def _ended(self, tenant: str, turn: str) -> Ended:
        with reading(no_response(turn)):
            stored = await self._catalogue.answer(tenant, turn)
        return Ended(turn=await self._in_thread(lambda: turn_view(stored, self._renderings)))

    async def _open(self, live: LiveTurn, room: Room, asked: Asked) -> None:
        """What was asked."""
        room.open(live, await self._in_thread(lambda: self._begun(live.id, asked)))

    async def _show(self, live: LiveTurn, room: Room, opening: asyncio.Task[None]) -> None:
        """What grows from there, as often as is good for everybody, while there is somebody to see it."""
        await asyncio.wait((opening,))
        while True:
            await room.attended.wait()
            await live.news.wait()
            began = time.monotonic()
            grown = await self._in_thread(live.reading())
            live.show(grown)
            room.grew(live, grown.start)
            cost = time.monotonic() - began
            await asyncio.sleep(max(MOST_OFTEN, LEISURE * cost, live.size(grown.start) / CHARACTERS_A_SECOND))

    def _begun(self, turn: str, asked: Asked) -> BegunView:
        return BegunView(
            id=RESPONSE + turn,
            parent=None if asked.parent is None else RESPONSE + asked.parent,
            created_at=int(time.time()),
            messages=tuple(message_view(message, self._renderings) for message in asked.messages),
            instructions=asked.instructions,
            settings=asked.settings or None,
        )

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
