"""What every store promises, on a real SQLite file and a real Redis server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sessions.chains import check_chain
from sessions.manager import SessionManager
from sessions.store import BadRecord, NotFound, Store, TurnConflict
from sessions.turns import Turn
from tests.sessions.examples import conversation, turn

Say = Callable[..., Coroutine[Any, Any, Any]]


async def test_the_same_turn_twice_is_stored_once_and_another_under_its_id_is_refused(store: Store) -> None:
    """A33"""
    for _ in range(2):
        await store.advance(conversation(), turn("x"))
        await store.add(conversation(), turn("x"))
    with pytest.raises(TurnConflict, match="stored as x"):
        await store.advance(conversation(), turn("x", answer="another"))
    assert await store.chain("x") == [turn("x")]


async def test_a_session_moves_on_from_its_leaf_only_and_a_refused_turn_is_not_stored(store: Store) -> None:
    """A31: a second writer of the same file cannot overwrite what it has not seen."""
    await store.advance(conversation(), turn("x"))
    await store.advance(conversation(leaf="x"), turn("y", "x"))
    with pytest.raises(TurnConflict, match="went on from x"):
        await store.advance(conversation(leaf="x"), turn("z", "x"))
    with pytest.raises(TurnConflict, match="refused"):
        await store.advance(conversation("other"), turn("root", where="other"))
    for name in ("z", "root"):
        with pytest.raises(NotFound):
            await store.chain(name)
    found = await store.session("t", "s")
    assert found is not None
    assert (found.id, found.leaf, found.used) == ("c", "y", 2.0)


async def test_a_turn_continues_a_turn_of_its_own_conversation_only(store: Store) -> None:
    await store.add(conversation(), turn("x"))
    await store.add(conversation("d", None), turn("y", where="d"))
    for parent in ("nothing", "y"):
        with pytest.raises(NotFound, match=f"turn {parent} of conversation c is gone"):
            await store.add(conversation(), turn("z", parent))
    with pytest.raises(TurnConflict, match="refused"):
        await store.add(conversation(), turn("z", "z"))


async def test_a_session_is_opened_with_all_turns_up_to_its_leaf(store: Store) -> None:
    await store.advance(conversation(), turn("x"))
    await store.advance(conversation(leaf="x"), turn("y", "x"))
    await store.add(conversation(leaf="y"), turn("branch", "x"))
    opened = await store.opened("t", "s")
    assert opened is not None
    assert opened[0] == await store.session("t", "s")
    assert opened[1] == await store.chain("y")


async def test_what_is_not_there_is_said_to_be_not_there(store: Store) -> None:
    assert await store.conversation("c") is None
    assert await store.session("t", "s") is None
    assert await store.opened("t", "s") is None
    assert await store.find("t", [b"x"]) == []
    with pytest.raises(NotFound, match="no turn x"):
        await store.chain("x")


async def test_a_turn_is_found_by_its_own_tenant_only_even_if_two_digests_were_equal(store: Store) -> None:
    """A02"""
    await store.add(conversation(), turn("x"))
    assert await store.find("t", [b"y", b"x"]) == [turn("x")]
    assert await store.find("another", [b"y", b"x"]) == []


async def test_twenty_sessions_finish_together_while_a_page_is_polled(store: Store, talk: Say) -> None:
    """A33: none lost, none doubled, order kept, and a reader sees whole turns only."""
    manager, done = SessionManager(store), False

    async def poll() -> int:
        seen = 0
        while not done:
            for number in range(20):
                found = await store.session("t", str(number))
                seen += len(await store.chain(found.leaf)) if found and found.leaf else 0
        return seen

    async def session(name: str) -> None:
        for number in range(10):
            await talk(manager, name, f"{name} {number}", "a")

    reader = asyncio.create_task(poll())
    await asyncio.gather(*(session(str(number)) for number in range(20)))
    done = True
    assert await reader > 0
    for name in range(20):
        async with manager.session("t", str(name), []) as turn:
            assert [m.content for m in turn.history[::2]] == [f"{name} {number}" for number in range(10)]


@pytest.mark.parametrize(
    "chain",
    [
        [turn("x"), turn("z", "x")],
        [turn("y", "x")],
        [turn("x"), turn("y")],
        [turn("x"), turn("y", "x", where="d")],
    ],
)
def test_a_chain_that_is_not_the_one_asked_for_is_refused(chain: list[Turn]) -> None:
    """A29"""
    with pytest.raises(BadRecord):
        check_chain(chain, "y")
