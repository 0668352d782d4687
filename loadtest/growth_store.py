"""A turn's calls of the store, where many conversations are kept, or one that is long."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Awaitable, Callable, Mapping

from sessions.manager import SessionManager
from sessions.open_turn import OpenTurn
from sessions.places import open_store
from sessions.store import Store
from sessions.turns import Message

TENANT = "t"
PROMPT, ANSWER = array("i", range(40)), array("i", range(60))
"""Token ids of a turn."""
TEXT = "a word and " * 20
TOGETHER = 64
"""Conversations written at one moment: they share their commits."""


class Kept:
    """conversations: of one turn each.  turns: of the one whose next turns are measured."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._sessions = SessionManager(store)
        self._spare = 0
        self._messages: list[Message] = []

    @classmethod
    async def filled(cls, place: str, conversations: int, turns: int) -> Kept:
        kept = cls(await open_store(place))
        for first in range(0, conversations, TOGETHER):
            numbers = range(first, min(first + TOGETHER, conversations))
            await asyncio.gather(*(kept._say(f"other {number}", f"about {number}") for number in numbers))
        for number in range(turns):
            await kept._say("mine", f"question {number}")
            kept._messages += [Message("user", f"question {number}"), Message("assistant", TEXT)]
        return kept

    def acts(self) -> Mapping[str, Callable[[], Awaitable[float]]]:
        """Each does one thing and gives its seconds."""
        return {
            "open_by_name_us": self.open_by_name,
            "find_by_messages_us": self.find_by_messages,
            "save_us": self.save,
            "list_us": self.list,
        }

    async def open_by_name(self) -> float:
        """What came before the conversation's next turn."""
        began = time.perf_counter()
        async with self._sessions.session(TENANT, "mine", [Message("user", "and then?")]) as opened:
            took = time.perf_counter() - began
        assert len(opened.history) == len(self._messages)
        return took

    async def find_by_messages(self) -> float:
        """The same for a client that sends all of its messages."""
        began = time.perf_counter()
        async with self._sessions.stateless(TENANT, [*self._messages, Message("user", "and then?")]) as opened:
            took = time.perf_counter() - began
        assert len(opened.history) == len(self._messages)
        return took

    async def save(self) -> float:
        """A branch of the long conversation: it stays as long as it is."""
        messages = [*self._messages, Message("user", f"another way {self._spare}")]
        self._spare += 1
        async with self._sessions.stateless(TENANT, messages) as opened:
            began = time.perf_counter()
            await _end(opened)
            return time.perf_counter() - began

    async def list(self) -> float:
        """The conversations that were used last, as a page shows them."""
        began = time.perf_counter()
        await self._sessions.catalogue.recent(TENANT, None, 40)
        return time.perf_counter() - began

    async def close(self) -> None:
        await self._store.close()

    async def _say(self, session: str, text: str) -> None:
        async with self._sessions.session(TENANT, session, [Message("user", text)]) as opened:
            await _end(opened)


async def _end(opened: OpenTurn) -> None:
    await opened.save(PROMPT, ANSWER, TEXT, "completed")
