"""An open page, as the server sees one: it follows a conversation's events, and does as they say."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

Json = dict[str, Any]

PATIENCE = 60
"""Seconds; nothing waits for them to pass but a test that fails."""


class Tab:
    """What was told, in order; and the answer as it is shown by it."""

    def __init__(self) -> None:
        self.events: list[Json] = []
        self.blocks: list[str] = []
        self.thinking: str | None = None
        self.ended = False
        self._news = asyncio.Condition()

    async def take(self, response: httpx.Response) -> None:
        with contextlib.suppress(httpx.TransportError):  # a server that was killed ends nothing in order
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    self._show(json.loads(line.removeprefix("data: ")))
                async with self._news:
                    self._news.notify_all()
        self.ended = True
        async with self._news:
            self._news.notify_all()

    def _show(self, event: Json) -> None:
        self.events.append(event)
        if event["type"] == "turn":
            self.blocks, self.thinking = [], None
        elif event["type"] == "text":
            assert event["from"] <= len(self.blocks)
            self.blocks[event["from"] :] = event["blocks"]
            self.thinking = event["thinking_html"]

    def kinds(self) -> list[str]:
        """The events' types, without those texts of which a quick answer may have none before its end."""
        return [event["type"] for event in self.events if event["type"] != "text"]

    def last(self, kind: str) -> Json:
        return next(event for event in reversed(self.events) if event["type"] == kind)

    async def until(self, kind: str, count: int = 1) -> Json:
        """The event, once so many of its kind have come."""
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: self._count(kind) >= count), PATIENCE)
        return self.last(kind)

    async def until_end_of(self, turn: str) -> None:
        """The end of the turn before may come first: it is saved before it is told."""
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: turn in self._ends()), PATIENCE)

    def _ends(self) -> list[str]:
        return [event["turn"]["id"] for event in self.events if event["type"] == "end"]

    async def until_told_or_ended(self, kind: str) -> None:
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: self.ended or self._count(kind)), PATIENCE)

    async def until_ended(self) -> None:
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: self.ended), PATIENCE)

    def _count(self, kind: str) -> int:
        return sum(event["type"] == kind for event in self.events)


@asynccontextmanager
async def following(client: httpx.AsyncClient, conversation: str) -> AsyncIterator[Tab]:
    """Yields when the tab has been told how it stands."""
    tab = Tab()
    async with client.stream("GET", f"/page/conversations/{conversation}/events", timeout=PATIENCE) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        taking = asyncio.create_task(tab.take(response))
        try:
            await tab.until("state")
            yield tab
        finally:
            taking.cancel()
            await asyncio.wait((taking,))


async def begin(client: httpx.AsyncClient, **more: object) -> str:
    """A new conversation's id."""
    return str((await client.post("/page/conversations", json=more)).json()["id"])


async def say(client: httpx.AsyncClient, conversation: str, text: str | None, **more: object) -> httpx.Response:
    return await client.post(f"/page/conversations/{conversation}/turns", json={"input": text, "parent": None} | more)


async def tree(client: httpx.AsyncClient, conversation: str) -> Json:
    return dict((await client.get(f"/page/conversations/{conversation}")).json())
