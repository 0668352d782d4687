"""A real SQLite file and a real Redis server, and a way to hold a turn from its opening to its end."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessions.manager import SessionManager
from sessions.places import open_store
from sessions.store import Store
from sessions.turns import Message, Turn
from tests.sessions.redis_server import RedisServer

Say = Callable[..., Coroutine[Any, Any, Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "not" / "there" / "yet" / "sessions.db"


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One for the tests that leave it running."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start("--appendfsync", "no")
    yield server
    server.stop()


@pytest.fixture
def redis_place(shared_redis: RedisServer) -> str:
    """Its URL, and nothing in it."""
    shared_redis.ask("FLUSHALL")
    return shared_redis.url


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """One of the test's own, to stop and start."""
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop(signal.SIGKILL)


@pytest.fixture(params=["sqlite", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    """A test that asks for a store or its place runs once on each kind, or on those that it names."""
    return str(request.param)


@pytest.fixture
def place(kind: str, path: Path, request: pytest.FixtureRequest) -> str:
    """Where a new and empty store can be opened, as often as wanted."""
    if kind == "sqlite":
        return f"sqlite:///{path}"
    return str(request.getfixturevalue("redis_place"))


@pytest.fixture
async def store(place: str) -> AsyncIterator[Store]:
    store = await open_store(place)
    yield store
    await store.close()


@pytest.fixture
def manager(store: Store) -> SessionManager:
    return SessionManager(store)


@pytest.fixture
def talk() -> Say:
    """Run one session turn whose ids are made from its texts' characters."""

    async def talk(manager: SessionManager, session: str, text: str, answer: str, tenant: str = "t") -> Turn:
        async with manager.session(tenant, session, (Message("user", text),)) as turn:
            return await turn.save(map(ord, text), map(ord, answer), answer, "completed")

    return talk


@pytest.fixture
def ask() -> Say:
    """Run one stateless turn the same way; returns the turn, and the ids that were known before it."""

    async def ask(
        manager: SessionManager, messages: tuple[Message, ...], answer: str, tenant: str = "t"
    ) -> tuple[Turn, list[int]]:
        async with manager.stateless(tenant, messages) as turn:
            text = "".join(message.content for message in turn.new_messages)
            saved = await turn.save(map(ord, text), map(ord, answer), answer, "completed")
            return saved, list(turn.history_ids)

    return ask
