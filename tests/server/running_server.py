"""A whole server around a scripted engine, on a free port, run by the code that runs real ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.types import ASGIApp

from chatserve.server.app import create_app
from chatserve.server.binding import SEND_BUFFER, bind
from chatserve.server.edge import Edge
from chatserve.server.limits import ServerLimits
from chatserve.server.live import LiveResponses
from chatserve.server.running import RunningTurns
from chatserve.server.serve import DrainLimits, ExitSignals, serve
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from sessions.manager import SessionManager
from sessions.sqlite import SqliteStore
from tests.server.scripted import ScriptedEngine

MODEL = "scripted/model"


@dataclass
class Parts:
    """What a server is made of; a test may change it before it serves."""

    engine: ScriptedEngine
    tokenizer: Tokenizer
    prompt: ChatPrompt
    store: SqliteStore
    limits: ServerLimits = field(default_factory=ServerLimits)
    drain: DrainLimits = field(default_factory=lambda: DrainLimits(running=5, ending=1, engine=1))
    send_buffer: int = SEND_BUFFER
    running: RunningTurns = field(default_factory=RunningTurns)
    edge: Edge = field(default_factory=Edge)
    live: LiveResponses = field(default_factory=LiveResponses)

    def app(self) -> ASGIApp:
        return self.edge.around(self.routes())

    def routes(self) -> Starlette:
        return create_app(
            self.engine,
            self.tokenizer,
            self.prompt,
            SessionManager(self.store),
            self.running,
            model_name=MODEL,
            limits=self.limits,
            live=self.live,
        )


@dataclass
class Running:
    parts: Parts
    port: int
    signals: ExitSignals
    task: asyncio.Task[None]
    clients: list[AsyncOpenAI | httpx.AsyncClient] = field(default_factory=list)

    @property
    def engine(self) -> ScriptedEngine:
        return self.parts.engine

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def openai(self) -> AsyncOpenAI:
        client = AsyncOpenAI(base_url=f"{self.url}/v1", api_key="unused", max_retries=0, timeout=10)
        self.clients.append(client)
        return client

    def http(self) -> httpx.AsyncClient:
        client = httpx.AsyncClient(base_url=self.url, timeout=10)
        self.clients.append(client)
        return client


@asynccontextmanager
async def serving(parts: Parts) -> AsyncIterator[Running]:
    listening = bind("127.0.0.1", 0, send_buffer=parts.send_buffer)
    port = listening.getsockname()[1]
    signals = ExitSignals()
    task = asyncio.create_task(
        serve(parts.app(), listening, engine=parts.engine, running=parts.running, signals=signals, limits=parts.drain)
    )
    running = Running(parts, port, signals, task)
    try:
        yield running
    finally:
        for client in running.clients:
            await (client.close() if isinstance(client, AsyncOpenAI) else client.aclose())
        signals.note()
        signals.note()
        await task


async def open_parts(folder: Path, tokenizer: Tokenizer, engine: ScriptedEngine) -> Parts:
    return Parts(engine, tokenizer, ChatPrompt(tokenizer), await SqliteStore.open(folder / "sessions.db"))
