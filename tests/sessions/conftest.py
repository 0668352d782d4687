"""A real SQLite file, and a way to hold a turn from its opening to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from sessions.manager import SessionManager
from sessions.sqlite import SqliteStore
from sessions.turns import Message, Turn

Say = Callable[..., Coroutine[Any, Any, Any]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "not" / "there" / "yet" / "sessions.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path)
    yield store
    await store.close()


@pytest.fixture
def manager(store: SqliteStore) -> SessionManager:
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
