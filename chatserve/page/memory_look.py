"""One look at the memory of one tenant, with the names of its own conversations."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from chatserve.engine.messages import MemoryPicture
from chatserve.engine.port import EnginePort, EngineUnavailable
from chatserve.page.memory_wire import MemoryView, memory_view
from chatserve.page.titles import Titles
from chatserve.server.errors import Unavailable
from chatserve.server.operating import ENGINE_ANSWERS_WITHIN

MOST_NODES: Final = 500


@dataclass(frozen=True, slots=True)
class Viewer:
    """The tenant whose recorded prefixes are looked at, and the one whose conversations are named in them: several
    callers may share the former.
    """

    prefixes: str
    conversations: str


class MemoryLook:
    """Called for each look; what it learns of titles is kept for the next one."""

    def __init__(self, engine: EnginePort, titles: Titles, prefixes: str) -> None:
        self._engine = engine
        self._titles = titles
        self._prefixes = prefixes

    async def __call__(self, focus: Collection[str]) -> MemoryView:
        """focus: conversations to show however long they were not used. Raises Unavailable."""
        picture = await self._picture(focus)
        used = sorted((node for node in picture.nodes if node.label), key=attrgetter("idle"))
        return memory_view(picture, await self._titles.of([node.label for node in used]))

    async def _picture(self, focus: Collection[str]) -> MemoryPicture:
        try:
            async with asyncio.timeout(ENGINE_ANSWERS_WITHIN):
                return await self._engine.picture(self._prefixes, MOST_NODES, focus)
        except EngineUnavailable:
            raise Unavailable("The engine is not there to answer; try again shortly.", code="not_ready") from None
        except TimeoutError:
            raise Unavailable(
                f"The engine did not answer within {ENGINE_ANSWERS_WITHIN:g} s.", code="engine_silent"
            ) from None
