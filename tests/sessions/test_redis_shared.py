"""Several processes on one Redis server: leases, fences, and what expires."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from sessions.manager import SessionManager
from sessions.redis import RedisStore
from sessions.store import NotFound, TurnConflict, session_hold
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


@pytest.fixture
async def other(redis_place: str) -> AsyncIterator[RedisStore]:
    """Another process's, for all that the server knows."""
    other = await RedisStore.open(redis_place, lease=LEASE)
    yield other
    await other.close()


async def test_of_two_clients_that_go_on_from_one_leaf_one_is_refused_whole(
    store: RedisStore, other: RedisStore
) -> None:
    """A31"""
    await store.advance(conversation(), turn("root"))
    leaf = "root"
    for number in range(20):
        names = [f"{number} {who}" for who in "ab"]
        outcomes = await asyncio.gather(
            store.advance(conversation(leaf=leaf), turn(names[0], leaf)),
            other.advance(conversation(leaf=leaf), turn(names[1], leaf)),
            return_exceptions=True,
        )
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "TurnConflict"]
        leaf = names[outcomes.index(None)]
        with pytest.raises(NotFound):
            await store.chain(names[1 - outcomes.index(None)])
    assert len(await other.chain(leaf)) == 21


async def test_a_turn_longer_than_the_lease_keeps_its_session(store: RedisStore, other: RedisStore, talk: Say) -> None:
    manager = SessionManager(store)
    async with manager.session("t", "s", [Q]) as opened:
        waiting = asyncio.create_task(talk(SessionManager(other), "s", "q2", "b"))
        await asyncio.sleep(3 * LEASE)
        assert not waiting.done()
        await opened.save([1], [2], "a", "completed")
    await asyncio.wait_for(waiting, 5)


async def test_what_a_dead_process_held_is_free_when_its_lease_lapses(
    redis_place: str, store: RedisStore, talk: Say
) -> None:
    dead = await RedisStore.open(redis_place, lease=LEASE)
    holding = SessionManager(dead).session("t", "s", [Q])
    await holding.__aenter__()
    await dead.holds.close()  # renews no longer
    await asyncio.wait_for(talk(SessionManager(store), "s", "q", "a"), 10 * LEASE + 5)
    await holding.__aexit__(None, None, None)
    await dead.close()


async def test_a_holder_that_lost_its_lease_is_refused_by_its_fence(redis_place: str, store: RedisStore) -> None:
    """A31: paused, say, while another process took the session and left it as it was."""
    slow = await RedisStore.open(redis_place, lease=LEASE)
    manager = SessionManager(slow)
    holding = manager.session("t", "s", [Q])
    opened = await holding.__aenter__()
    await slow.holds.close()
    async with store.holds.alone(session_hold("t", "s")) as fence:
        assert fence == 2
        with pytest.raises(TurnConflict, match="held by somebody else"):
            await opened.save([1], [2], "late", "completed")
    await holding.__aexit__(None, None, None)
    assert await store.session("t", "s") is None
    await slow.close()


async def test_a_lease_that_a_restarted_server_forgot_is_taken_again(server: RedisServer) -> None:
    store, other = [await RedisStore.open(server.url, lease=LEASE) for _ in range(2)]
    async with store.holds.alone("x"):
        server.ask("FLUSHALL")
        await asyncio.sleep(LEASE)
        taking = asyncio.create_task(other.holds.alone("x").__aenter__())
        await asyncio.sleep(2 * LEASE)
        assert not taking.done()
        taking.cancel()
    for each in (store, other):
        await each.close()


async def test_a_hold_whose_taker_leaves_at_any_moment_is_free_again(store: RedisStore, other: RedisStore) -> None:
    async def take() -> None:
        async with store.holds.alone("x"):
            await asyncio.sleep(1)

    for rounds in range(60):
        taking = asyncio.create_task(take())
        for _ in range(rounds):
            await asyncio.sleep(0)
        taking.cancel()
        await asyncio.wait((taking,))
        async with asyncio.timeout(LEASE / 2), other.holds.alone("x"):
            pass
    assert len(store.holds) == 0


async def test_what_somebody_keeps_does_not_expire_even_if_the_claim_was_too_slow(
    store: RedisStore, other: RedisStore
) -> None:
    """A32"""
    await store.add(conversation("c", None), turn("x"))
    async with other.holds.keep("c"):
        async with store.holds.unused(["c"]) as unused:
            assert unused == []
        assert await store.expire(1e9, ["c"]) == 0
    async with store.holds.unused(["c"]) as unused:
        assert unused == ["c"]
        assert await store.expire(1e9, unused) == 1


async def test_a_conversation_that_is_deleted_or_expires_leaves_no_key(
    store: RedisStore, redis_place: str, talk: Say, ask: Say
) -> None:
    """A32: all of a conversation's keys go at once."""
    manager = SessionManager(store)
    first = await talk(manager, "s", "q", "a")
    await talk(manager, "s", "q2", "b")
    await ask(manager, (Q, A, Q2), "elsewhere")
    await ask(manager, (Q2,), "another")
    await manager.catalogue.delete("t", first.conversation)
    assert await manager.expire(older_than=-1.0) == 1
    left = {key.decode().partition(":")[2].partition(":")[0] for key in client(redis_place).scan_iter()}
    assert left <= {"format", "n", "f"}
