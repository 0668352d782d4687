"""The routes of the page's conversations in the house's application, over any store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import httpx

from chatserve.page.conversations import conversation_routes
from chatserve.page.renderings import Renderings
from chatserve.server.edge import Edge
from chatserve.server.limits import ServerLimits
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from sessions.manager import SessionManager
from sessions.sqlite import SqliteStore
from sessions.store import Store
from sessions.turns import Message, Turn
from tests.server.running_server import Parts
from tests.server.scripted import ScriptedEngine


@dataclass
class Told:
    """A `Watching` that remembers. turns: those under way, by their conversations."""

    told: list[tuple[str, ...]] = field(default_factory=list)
    turns: dict[str, str] = field(default_factory=dict)

    def running(self, conversation: str) -> str | None:
        return self.turns.get(conversation)

    def renamed(self, conversation: str, title: str) -> None:
        self.told.append(("renamed", conversation, title))

    def deleted(self, conversation: str) -> None:
        self.told.append(("deleted", conversation))


@dataclass
class TreeServer:
    client: httpx.AsyncClient
    sessions: SessionManager
    watching: Told
    tokenizer: Tokenizer
    engine: ScriptedEngine

    def prompt(self) -> str:
        """The last one that the engine was sent."""
        return self.tokenizer.decode(self.engine.prompt_ids())

    async def get(self, path: str) -> httpx.Response:
        return await self.client.get(path)

    async def post(self, path: str, body: object) -> httpx.Response:
        return await self.client.post(path, json=body)

    async def told(self, text: str, answer: str = "a", *, title: str = "", tenant: str = "") -> str:
        """The id of a new conversation of one turn."""
        made = await self.sessions.catalogue.create(tenant, (), {"title": title} if title else {})
        await reply(self.sessions, made.id, None, text, answer, tenant=tenant)
        return made.id


async def reply(
    sessions: SessionManager, where: str, parent: str | None, text: str, answer: str = "a", *, tenant: str = ""
) -> Turn:
    async with sessions.turn_at(tenant, where, parent, [Message("user", text)]) as opened:
        return await opened.save([1], [2], answer, "completed")


@asynccontextmanager
async def tree_server(
    store: Store, tokenizer: Tokenizer, engine: ScriptedEngine, limits: ServerLimits, edge: Edge | None = None
) -> AsyncIterator[TreeServer]:
    parts = Parts(engine, tokenizer, ChatPrompt(tokenizer), cast(SqliteStore, store), limits, edge=edge or Edge())
    sessions, watching = SessionManager(store), Told()
    app = parts.routes()
    app.router.routes[:0] = conversation_routes(sessions, limits, Renderings(), watching)
    transport = httpx.ASGITransport(app=parts.edge.around(app), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield TreeServer(client, sessions, watching, tokenizer, engine)
