"""What a Redis server holds is checked, and what it says is not passed on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from sessions import redis as redis_module
from sessions.manager import SessionManager
from sessions.redis import RedisStore
from sessions.redis_scripts import script
from sessions.store import BadRecord, NewerFormat, StoreUnavailable
from sessions.turns import Message
from tests.sessions.examples import conversation, turn
from tests.sessions.redis_server import RedisServer, client

Say = Callable[..., Coroutine[Any, Any, Any]]

Q, A, Q2 = Message("user", "q"), Message("assistant", "a"), Message("user", "q2")

LEASE = 0.3


@pytest.fixture
async def store(redis_place: str) -> AsyncIterator[RedisStore]:
    store = await RedisStore.open(redis_place, lease=LEASE)
    yield store
    await store.close()


async def test_a_store_of_a_newer_format_is_refused_and_left_alone(redis_place: str) -> None:
    client(redis_place).set("chatserve:format", 99)
    with pytest.raises(NewerFormat, match=r"format version 99.*up to 2: upgrade"):
        await RedisStore.open(redis_place)


async def test_an_older_store_is_brought_up_to_date_once(
    redis_place: str, monkeypatch: pytest.MonkeyPatch, talk: Say
) -> None:
    older = await RedisStore.open(redis_place)
    saved = await talk(SessionManager(older), "s", "q", "a")
    await older.close()
    step = script("if call('GET', P .. 'format') == '2' then call('SET', P .. 'format', 3) call('INCR', 'ran') end")
    monkeypatch.setattr(redis_module, "MIGRATIONS", (*redis_module.MIGRATIONS, step))
    newer = await asyncio.gather(*(RedisStore.open(redis_place) for _ in range(4)))
    assert await newer[0].chain(saved.id) == [saved]
    assert (client(redis_place).get("chatserve:format"), client(redis_place).get("ran")) == (b"3", b"1")
    for each in newer:
        await each.close()


async def test_a_store_of_the_first_format_learns_to_list_by_last_use(redis_place: str, talk: Say) -> None:
    older = await RedisStore.open(redis_place)
    names = [(await talk(SessionManager(older), name, "q", "a")).conversation for name in "abc"]
    await older.close()
    client(redis_place).delete("chatserve:used:t")
    client(redis_place).set("chatserve:format", 1)
    newer = await asyncio.gather(*(RedisStore.open(redis_place) for _ in range(4)))
    assert [each.id for each in await newer[0].recent("t", None, 9)] == names[::-1]
    for each in newer:
        await each.close()


async def test_records_that_are_not_what_their_place_says_are_refused(store: RedisStore, redis_place: str) -> None:
    """A29: no answer from a record that belongs elsewhere."""
    for name in ("c", "d"):
        await store.add(conversation(name, None), turn(f"{name}0", where=name))
        await store.add(conversation(name, None), turn(f"{name}1", f"{name}0", where=name))
    server = client(redis_place)
    server.hset("chatserve:t:c", "c1:r", server.hget("chatserve:t:d", "d1:r"))
    for call in (store.chain("c1"), store.turn("t", "c1"), store.find("t", [b"c1"])):
        with pytest.raises(BadRecord):
            await call
    server.hset("chatserve:t:c", mapping={"c1:r": b"\x01marker", "c0:p": "c1"})
    for broken in (store.chain("c1"), store.chain("c0")):
        with pytest.raises(BadRecord) as failure:
            await broken
        assert "marker" not in str(failure.value)
    server.hset("chatserve:c:c", "id", "d")
    with pytest.raises(BadRecord):
        await store.conversation("c")


async def test_an_error_of_the_server_is_reported_without_what_was_sent(
    server: RedisServer, caplog: pytest.LogCaptureFixture, talk: Say
) -> None:
    """A40: neither text nor password."""
    store = await RedisStore.open(server.url)
    client(server.url).config_set("maxmemory", "1")
    with pytest.raises(StoreUnavailable) as failure:
        await talk(SessionManager(store), "s", "marker", "marker")
    shown = f"{failure.value} {failure.value.__cause__} {failure.value.__context__} {caplog.text}"
    assert "marker" not in shown
    await store.close()


async def test_a_wrong_password_is_refused_at_once_and_not_shown(server: RedisServer) -> None:
    client(server.url).config_set("requirepass", "right")
    for url in (server.url, server.url.replace("//", "//:word@")):
        with pytest.raises(StoreUnavailable) as failure:
            await asyncio.wait_for(RedisStore.open(url), 2)
        assert "word" not in str(failure.value).replace("AuthenticationError", "")
    store = await RedisStore.open(server.url.replace("//", "//:right@"))
    await store.close()
