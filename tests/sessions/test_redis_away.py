"""A Redis server that goes away and comes back, or answers late, and callers that leave."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sessions.manager import SessionManager
from sessions.redis import RedisStore
from sessions.store import NotFound, StoreClosed, StoreUnavailable
from sessions.turns import Message
from tests.sessions.examples import conversation, turn
from tests.sessions.redis_server import RedisServer, client

Say = Callable[..., Coroutine[Any, Any, Any]]

Q, A, Q2 = Message("user", "q"), Message("assistant", "a"), Message("user", "q2")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_a_turn_that_ends_while_the_server_is_away_is_saved_when_it_is_back(
    server: RedisServer, talk: Say, how: signal.Signals
) -> None:
    """A30: in the middle of a turn, and again between two."""
    store = await RedisStore.open(server.url)
    manager = SessionManager(store)
    await talk(manager, "s", "q", "a")
    async with manager.session("t", "s", [Q2]) as opened:
        server.stop(how)
        saving = asyncio.create_task(opened.save([1], [2], "b", "completed"))
        await asyncio.sleep(0.3)
        assert not saving.done()
        server.start()
        await asyncio.wait_for(saving, 10)
    server.stop(how)
    server.start()
    await talk(manager, "s", "q3", "c")
    async with manager.session("t", "s", []) as after:
        assert [message.content for message in after.history] == ["q", "a", "q2", "b", "q3", "c"]
    await store.close()


async def test_fifty_turns_over_a_restart_are_all_there_once_and_in_order(server: RedisServer, talk: Say) -> None:
    store = await RedisStore.open(server.url)
    manager = SessionManager(store, max_waiting=10)

    async def session(name: str) -> None:
        for number in range(10):
            await talk(manager, name, f"{name} {number}", "a")
            await asyncio.sleep(0.02)

    talking = asyncio.gather(*(session(str(number)) for number in range(5)))
    await asyncio.sleep(0.1)
    server.stop(signal.SIGKILL)
    await asyncio.sleep(0.1)
    server.start()
    await talking
    for name in range(5):
        async with manager.session("t", str(name), []) as opened:
            assert [m.content for m in opened.history[::2]] == [f"{name} {number}" for number in range(10)]
    await store.close()


async def test_calls_fail_after_their_patience_and_work_again_afterwards(server: RedisServer, talk: Say) -> None:
    store = await RedisStore.open(server.url, patience=0.2, save_patience=0.2)
    manager = SessionManager(store)
    saved = await talk(manager, "s", "q", "a")
    server.stop()
    for call in (store.chain(saved.id), store.session("t", "s"), store.delete("t", "x")):
        with pytest.raises(StoreUnavailable, match="ConnectionError"):
            await call
    with pytest.raises(StoreUnavailable):
        await RedisStore.open(server.url, patience=0.1)
    server.start()
    assert await store.chain(saved.id) == [saved]
    await store.close()


async def test_history_that_the_server_lost_is_missed_not_replaced(server: RedisServer) -> None:
    """A30: no silent fresh chat under a conversation's id."""
    store = await RedisStore.open(server.url)
    manager = SessionManager(store)
    made = await manager.catalogue.create("t", [Q])
    async with manager.conversation("t", made.id, [Q2]) as opened:
        server.ask("FLUSHALL")
        with pytest.raises(NotFound):
            await opened.save([1], [2], "a", "completed")
    with pytest.raises(NotFound):
        async with manager.conversation("t", made.id, [Q2]):
            pass
    await store.close()


async def test_a_killed_idle_connection_is_replaced(redis_place: str, talk: Say) -> None:
    """A30"""
    store = await RedisStore.open(redis_place)
    manager = SessionManager(store)
    for number in range(3):
        await talk(manager, "s", str(number), "a")
        client(redis_place).client_kill_filter(_type="normal", skipme=True)
    async with manager.session("t", "s", []) as opened:
        assert len(opened.history) == 6
    await store.close()


# It answers late, and callers leave.


async def test_a_caller_that_leaves_never_shifts_the_answers_of_others(server: RedisServer, talk: Say) -> None:
    """A29: a thousand reads cancelled at any moment, each followed by another's."""
    store = await RedisStore.open(server.url)
    manager = SessionManager(store)
    saved = [await talk(manager, name, f"secret {name}", name) for name in "ab"]
    for number in range(1000):
        leaving = asyncio.create_task(store.chain(saved[0].id))
        for _ in range(number % 12):
            await asyncio.sleep(0)
        leaving.cancel()
        assert await store.chain(saved[1].id) == [saved[1]]
    await store.close()


async def test_a_save_whose_caller_leaves_while_the_server_is_silent_is_made_all_the_same(server: RedisServer) -> None:
    """A29"""
    store = await RedisStore.open(server.url)
    server.pause()
    writes = [asyncio.create_task(store.add(conversation(), turn(name))) for name in "xyz"]
    await asyncio.sleep(0.05)
    for write in writes:
        write.cancel()
    await asyncio.gather(*writes, return_exceptions=True)
    server.resume()
    await store.expire(0.0, [])  # behind them in the same line
    assert [await store.find("t", [name.encode()]) for name in "xyz"] == [[turn(name)] for name in "xyz"]
    await store.close()


async def test_what_is_in_line_when_the_store_closes_is_still_made(redis_place: str) -> None:
    store = await RedisStore.open(redis_place)
    write = asyncio.create_task(store.add(conversation(), turn("x")))
    await asyncio.sleep(0)
    await store.close()
    await write
    await store.close()
    with pytest.raises(StoreClosed):
        await store.chain("x")
    again = await RedisStore.open(redis_place)
    assert await again.chain("x") == [turn("x")]
    await again.close()
