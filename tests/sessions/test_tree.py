"""A conversation as a tree: turns that go on from anywhere, all of them read at once, and nothing of them ever lost."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from sessions.chains import parents_first
from sessions.gate import SessionBusy
from sessions.manager import SessionManager
from sessions.places import open_store
from sessions.planting import Seed
from sessions.store import BadRecord, NotFound, Store, TurnConflict
from sessions.turns import Message, Turn
from tests.sessions.examples import conversation, turn

Say = Callable[..., Coroutine[Any, Any, Any]]

Q, A, Q2 = Message("user", "q"), Message("assistant", "a"), Message("user", "q2")


@pytest.fixture
async def other(place: str) -> AsyncIterator[Store]:
    """Another process's, for all that the holds know."""
    other = await open_store(place)
    yield other
    await other.close()


async def reply(manager: SessionManager, where: str, parent: str | None, text: str, answer: str = "a") -> Turn:
    """A turn whose ids are its texts' characters."""
    async with manager.turn_at("t", where, parent, [Message("user", text)]) as opened:
        return await opened.save(map(ord, text), map(ord, answer), answer, "completed")


async def test_a_turn_goes_on_from_any_other_with_its_exact_ids_and_becomes_the_leaf(manager: SessionManager) -> None:
    made = await manager.catalogue.create("t", [Message("system", "be brief")])
    first = await reply(manager, made.id, None, "q")
    await reply(manager, made.id, first.id, "q2", "b")
    async with manager.turn_at("t", made.id, first.id, [Q2]) as again:
        assert again.history == (Message("system", "be brief"), Q, A)
        assert list(again.history_ids) == [ord("q"), ord("a")]
        saved = await again.save([ord("q")], [ord("c")], "c", "completed")
    found, turns = await manager.catalogue.turns("t", made.id)
    assert found.leaf == saved.id
    assert [(each.parent, each.answer) for each in turns] == [
        (None, None),
        (made.leaf, "a"),
        (first.id, "b"),
        (first.id, "c"),
    ]
    items = await manager.catalogue.items("t", made.id, newest_first=False)
    assert [item.message.content for item in items.values] == ["be brief", "q", "a", "q2", "c"]
    async with manager.conversation("t", made.id, [Q]) as following:
        assert [message.content for message in following.history] == ["be brief", "q", "a", "q2", "c"]


async def test_from_the_beginning_is_after_what_it_was_created_with_or_beside_its_first_turn(
    manager: SessionManager, talk: Say
) -> None:
    made = await manager.catalogue.create("t", [Message("system", "be brief")])
    assert (await reply(manager, made.id, None, "q")).parent == made.leaf
    named = (await talk(manager, "s", "q", "a")).conversation
    beside = await reply(manager, named, None, "another beginning")
    assert beside.parent is None
    found, turns = await manager.catalogue.turns("t", named)
    assert (found.leaf, len(turns)) == (beside.id, 2)
    async with manager.session("t", "s", [Q2]) as following:
        assert following.history[0].content == "another beginning"


async def test_a_conversation_deleted_during_a_turn_from_its_beginning_does_not_come_back(
    manager: SessionManager, talk: Say
) -> None:
    """A31"""
    named = (await talk(manager, "s", "q", "a")).conversation
    async with manager.turn_at("t", named, None, [Q]) as opened:
        await manager.catalogue.delete("t", named)
        with pytest.raises(NotFound, match=f"^conversation {named} is gone"):
            await opened.save([1], [2], "b", "completed")
    for gone in (manager.catalogue.turns("t", named), manager.catalogue.answer("t", opened.turn_id)):
        with pytest.raises(NotFound):
            await gone


async def test_only_a_turn_of_the_same_conversation_and_tenant_can_be_gone_on_from(manager: SessionManager) -> None:
    made, another = [await manager.catalogue.create("t") for _ in range(2)]
    elsewhere = await reply(manager, another.id, None, "q")
    hidden = await reply(manager, made.id, None, "q")
    last = await reply(manager, made.id, hidden.id, "q2")
    await manager.catalogue.delete_answer("t", hidden.id)
    for tenant, parent in (("t", elsewhere.id), ("t", "nothing"), ("t", hidden.id), ("another", last.id)):
        with pytest.raises(NotFound):
            async with manager.turn_at(tenant, made.id, parent, [Q]):
                pass
    await manager.catalogue.delete_answer("t", last.id)
    async with manager.turn_at("t", made.id, last.id, [Q]) as opened:
        assert len(opened.history) == 4, "the leaf goes on, as it does by the conversation's name"


async def test_of_a_turn_that_was_hidden_only_its_place_is_told(manager: SessionManager, store: Store) -> None:
    made = await manager.catalogue.create("t")
    first = await reply(manager, made.id, None, "q")
    last = await reply(manager, made.id, first.id, "q2")
    await manager.catalogue.delete_answer("t", first.id)
    _, shown, then = await store.turns(made.id)
    assert (shown.id, shown.parent, shown.messages, shown.answer) == (first.id, made.leaf, (), None)
    assert then == last
    assert len(await store.chain(last.id)) == 3, "and it stays the past of what goes on from it"


async def test_one_who_does_not_wait_is_told_at_once_that_a_turn_runs_here_or_elsewhere(
    manager: SessionManager, store: Store, other: Store
) -> None:
    made, quiet = [await manager.catalogue.create("t") for _ in range(2)]
    elsewhere = SessionManager(other)
    async with elsewhere.turn_at("t", made.id, None, [Q]):
        for each in (elsewhere, manager):
            with pytest.raises(SessionBusy, match="is running: send the next turn"):
                async with each.turn_at("t", made.id, None, [Q], wait=False):
                    pass
            assert await each.running("t", [made, quiet]) == {made.id}
        async with manager.turn_at("t", quiet.id, None, [Q], wait=False) as opened:
            await opened.save([1], [2], "a", "completed")
    for each in (elsewhere, manager):
        assert await each.running("t", [made, quiet]) == set()
        async with each.turn_at("t", made.id, None, [Q], wait=False):
            pass
    assert len(store.holds) == len(other.holds) == len(manager._gate) == 0


async def test_a_look_at_who_runs_takes_nothing_and_disturbs_nobody(store: Store, other: Store) -> None:
    async with store.holds.keep("x"):
        assert await other.holds.held(["x"]) == set(), "what several use is no turn"
    async with store.holds.alone("x"):
        looks = [await each.holds.held(["x", "y"]) for each in (store, other) for _ in range(3)]
        assert looks == [{"x"}] * 6
    async with asyncio.timeout(5), other.holds.alone("x", wait=False):
        pass
    assert await store.holds.held([]) == set()


async def test_one_who_was_refused_at_once_leaves_nothing_that_others_wait_for(store: Store, other: Store) -> None:
    async with store.holds.alone("x"):
        for _ in range(5):
            with pytest.raises(SessionBusy):
                async with other.holds.alone("x", wait=False):
                    pass
        waiting = asyncio.create_task(other.holds.alone("x").__aenter__())
        await asyncio.sleep(0.05)
        assert not waiting.done()
    async with asyncio.timeout(5):
        await waiting


async def test_the_leaf_is_compared_with_the_one_the_turn_was_opened_at(store: Store) -> None:
    """A31: who goes on from an earlier turn has seen the leaf all the same, or is refused."""
    await store.advance(conversation(), turn("x"))
    await store.advance(conversation(leaf="x"), turn("y", "x"))
    await store.advance(conversation(leaf="y"), turn("z", "x"))
    with pytest.raises(TurnConflict, match="went on from y"):
        await store.advance(conversation(leaf="y"), turn("late", "x"))
    with pytest.raises(NotFound):
        await store.chain("late")
    await store.advance(conversation(leaf="y"), turn("z", "x"))  # again, by one who does not know that it was stored
    found = await store.conversation("c")
    assert found is not None
    assert found.leaf == "z"
    assert await store.turns("c") == [turn("x"), turn("y", "x"), turn("z", "x")]


async def test_what_was_stored_stays_through_branches_cancelled_at_any_moment(place: str) -> None:
    """Each try is cancelled one round of the event loop later than the last; what ended is there, all of it."""
    store = await open_store(place)
    manager, kept = SessionManager(store), list[Turn]()
    made = await manager.catalogue.create("t")

    async def branch(number: int) -> None:
        parent = kept[number % len(kept)].id if kept else None
        kept.append(await reply(manager, made.id, parent, str(number)))

    for number in range(50):
        task = asyncio.create_task(branch(number))
        for _ in range(number):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        stored = {each.id: each for each in await store.turns(made.id)}
        assert all(stored[each.id] == each for each in kept)
        found = await store.conversation(made.id)
        assert found is not None
        assert found.leaf in stored
    await store.close()
    again = await open_store(place)
    assert {each.id for each in kept} <= {each.id for each in await again.turns(made.id)}
    assert await SessionManager(again).running("t", [made]) == set()
    await again.close()


async def test_two_processes_that_branch_at_once_keep_every_turn_of_both(
    manager: SessionManager, store: Store, other: Store
) -> None:
    """A31"""
    made = await manager.catalogue.create("t")
    root = await reply(manager, made.id, None, "q")
    managers = (manager, SessionManager(other))
    saved = await asyncio.gather(
        *(reply(managers[number % 2], made.id, root.id, str(number)) for number in range(12)), return_exceptions=False
    )
    turns = await store.turns(made.id)
    assert {each.id for each in turns} == {made.leaf, root.id, *(each.id for each in saved)}
    found = await store.conversation(made.id)
    assert found is not None
    assert found.leaf in {each.id for each in saved}


# A whole conversation at once.


async def test_a_conversation_is_created_with_all_its_turns_or_not_at_all(store: Store) -> None:
    turns = [turn("x"), turn("y", "x"), turn("z", "x")]
    whole = conversation(leaf="y")
    for _ in range(2):
        await store.create(whole, turns)
    assert await store.turns("c") == turns
    assert await store.session("t", "s") == await store.conversation("c") == whole
    assert await store.chain("z") == [turns[0], turns[2]]
    assert await store.find("t", [b"y"]) == turns[:2]
    for refused, given in (
        (conversation("d", "s", leaf="v"), [turn("v", where="d")]),
        (conversation("d", "s2", leaf="x"), [turn("v", where="d"), turn("x", "v", where="d")]),
        (conversation("d", "s2", leaf="w"), [turn("w", "v", where="d"), turn("v", where="d")]),
        (msgspec.structs.replace(conversation(leaf="z"), tenant="another"), turns),
    ):
        with pytest.raises(TurnConflict, match="is refused"):
            await store.create(refused, given)
    assert await store.conversation("d") is None
    assert await store.turns("c") == turns
    assert [each.id for each in await store.recent("t", None, 9)] == ["c"]


async def test_an_answer_that_came_without_ids_is_encoded_with_everything_by_the_next_turn(
    manager: SessionManager, store: Store
) -> None:
    given = msgspec.structs.replace(turn("x"), prompt_ids=array("i"), output_ids=array("i"))
    await store.create(conversation(leaf="x"), [given])
    said = (Message("user", "x"), A)
    async with manager.conversation("t", "c", [Q2]) as opened:
        assert (opened.history, list(opened.history_ids), opened.new_messages) == ((), [], (*said, Q2))
        saved = await opened.save([1, 2, 3], [4], "b", "completed")
    assert saved.restarts
    async with manager.turn_at("t", "c", saved.id, [Q]) as opened:
        assert list(opened.history_ids) == [1, 2, 3, 4]
        assert opened.new_messages == (Q,)
    async with manager.turn_at("t", "c", "x", [Q]) as opened:
        assert opened.new_messages == (*said, Q)


async def test_a_conversation_from_elsewhere_is_planted_with_its_branches_and_found_by_its_words(
    manager: SessionManager,
) -> None:
    seeds = [
        Seed(parent=None, messages=(Message("system", "be brief"),), answer=None, created=1.0),
        Seed(parent=0, messages=(Q,), answer="a", created=2.0, instructions="kindly", detail=b"{}"),
        Seed(parent=1, messages=(Q2,), answer="left", created=3.0),
        Seed(parent=1, messages=(Q2,), answer="right", created=4.0, status="length"),
    ]
    made = await manager.catalogue.plant("t", seeds, 2, {"title": "brought"})
    found, turns = await manager.catalogue.turns("t", made.id)
    assert (found, found.leaf) == (made, turns[2].id)
    assert [(each.answer, each.status, each.instructions) for each in turns[1:]] == [
        ("a", "completed", "kindly"),
        ("left", "completed", None),
        ("right", "length", None),
    ]
    assert [each.parent for each in turns] == [None, turns[0].id, turns[1].id, turns[1].id]
    assert len((await manager.catalogue.search("t", ["brought", "right"])).values) == 1
    assert len((await manager.catalogue.conversation_ids("t", made.id)).ids) == 0
    with pytest.raises(ValueError, match="surrogates"):
        await manager.catalogue.plant("t", [msgspec.structs.replace(seeds[0], answer="\ud83d")], 0)


def test_turns_whose_clocks_disagree_come_after_their_parents_all_the_same() -> None:
    late = msgspec.structs.replace(turn("x"), created=9.0)
    early = msgspec.structs.replace(turn("y", "x"), created=1.0)
    assert parents_first([early, late]) == [late, early]
    with pytest.raises(BadRecord):
        parents_first([early])
