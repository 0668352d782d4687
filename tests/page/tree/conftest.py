"""The page's conversations over a real SQLite file and a real Redis server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from chatserve.server.limits import ServerLimits
from chatserve.text.tokenizer import Tokenizer
from sessions.manager import SessionManager
from sessions.places import open_store
from tests.page.tree.tree_server import TreeServer, tree_server
from tests.server.scripted import ScriptedEngine
from tests.sessions.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start("--appendfsync", "no")
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path, redis: RedisServer) -> str:
    """Where an empty store can be opened, as often as wanted."""
    if request.param == "sqlite":
        return str(tmp_path / "sessions.db")
    redis.ask("FLUSHALL")
    return redis.url


@pytest.fixture
def limits() -> ServerLimits:
    return ServerLimits()


@pytest.fixture
async def tree(
    place: str, tokenizer: Tokenizer, engine: ScriptedEngine, limits: ServerLimits
) -> AsyncIterator[TreeServer]:
    store = await open_store(place)
    async with tree_server(store, tokenizer, engine, limits) as server:
        yield server
    await store.close()


@pytest.fixture
async def another_process(place: str) -> AsyncIterator[SessionManager]:
    """To the store's holds it is one."""
    store = await open_store(place)
    yield SessionManager(store)
    await store.close()
