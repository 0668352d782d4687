"""What a turn finds when it is opened, and what is left when it ends."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sessions.digest import DigestChain
from sessions.gate import SessionBusy
from sessions.manager import SessionManager
from sessions.places import open_store
from sessions.store import Store
from sessions.turns import Message

Say = Callable[..., Coroutine[Any, Any, Any]]

Q, A, Q2 = Message("user", "q"), Message("assistant", "a"), Message("user", "q2")


async def test_a_session_goes_on_where_it_stopped_with_the_exact_ids_also_after_a_restart(place: str) -> None:
    """A12"""
    store = await open_store(place)
    async with SessionManager(store).session("t", "s", [Q]) as turn:
        assert (turn.history, list(turn.history_ids), turn.new_messages) == ((), [], (Q,))
        await turn.save([1, 2], [3, 4], "a", "length")
    await store.close()

    store = await open_store(place)
    async with SessionManager(store).session("t", "s", [Q2]) as again:
        assert again.history == (Q, A)
        assert again.history_ids == array("i", [1, 2, 3, 4])
        assert again.new_messages == (Q2,)
        assert again.conversation.id == turn.conversation.id
        saved = await again.save([5], [6], "b", "completed")
    assert [(t.status, t.parent) for t in await store.chain(saved.id)] == [
        ("length", None),
        ("completed", turn.turn_id),
    ]
    await store.close()


async def test_a_stateless_request_finds_the_exact_ids_of_the_messages_it_repeats(manager: SessionManager) -> None:
    """A12: the ids stay as generated, also where the answer's text has another encoding."""
    async with manager.stateless("t", [Q]) as turn:
        await turn.save([1], [101, 102, 103], "a", "completed")
    async with manager.stateless("t", [Q, A, Q2]) as again:
        assert list(again.history_ids) == [1, 101, 102, 103]
        assert again.new_messages == (Q2,)
        assert again.conversation.id == turn.conversation.id


async def test_a_session_can_be_continued_by_its_text_without_moving_it(
    manager: SessionManager, talk: Say, ask: Say
) -> None:
    """A12"""
    await talk(manager, "s", "q", "a")
    _, known = await ask(manager, (Q, A, Q2), "elsewhere")
    assert known == [ord("q"), ord("a")]
    async with manager.session("t", "s", [Q2]) as turn:
        assert turn.history == (Q, A)


async def test_two_requests_that_continue_one_answer_branch(manager: SessionManager, store: Store, ask: Say) -> None:
    root, _ = await ask(manager, (Q,), "a")
    one, _ = await ask(manager, (Q, A, Q2), "b")
    two, known = await ask(manager, (Q, A, Q2), "c")
    assert one.parent == two.parent == root.id
    assert one.conversation == two.conversation
    assert known == [ord("q"), ord("a")]
    assert [turn.id for turn in await store.chain(two.id)] == [root.id, two.id]


async def test_an_answer_that_was_never_given_here_starts_a_new_conversation_of_all_messages(
    manager: SessionManager, ask: Say
) -> None:
    root, _ = await ask(manager, (Q,), "a")
    turn, known = await ask(manager, (Q, Message("assistant", "edited"), Q2), "b")
    assert (known, turn.parent, len(turn.messages)) == ([], None, 3)
    assert turn.conversation != root.conversation


async def test_the_newest_of_equal_turns_is_continued(manager: SessionManager, ask: Say) -> None:
    await ask(manager, (Q,), "a")
    newest, _ = await ask(manager, (Q,), "a")
    turn, _ = await ask(manager, (Q, A, Q2), "b")
    assert turn.parent == newest.id


async def test_tenants_share_neither_sessions_nor_histories(manager: SessionManager, talk: Say, ask: Say) -> None:
    await talk(manager, "s", "q", "a", tenant="one")
    async with manager.session("two", "s", [Q]) as turn:
        assert turn.history == ()
    _, known = await ask(manager, (Q, A, Q2), "b", tenant="two")
    assert known == []


@pytest.mark.parametrize("kept_bits", [0, 1])
async def test_a_digest_collision_is_only_a_miss(store: Store, ask: Say, kept_bits: int) -> None:
    """A02: with a hash of no or one bit, nobody sees another history, tenant's or own."""
    real = DigestChain()._hash
    manager = SessionManager(store, digests=DigestChain(lambda data: bytes([real(data)[0] & kept_bits])))
    for tenant in ("one", "two"):
        for text in "pqrs":
            await ask(manager, (Message("user", text),), "a", tenant=tenant)
    for text in "pqrst":
        async with manager.stateless("two", [Message("user", text), A, Q2]) as turn:
            assert turn.history in ((), (Message("user", text), A))
            assert turn.conversation.tenant == "two"


async def test_a_rewritten_history_replaces_the_ids_before_it_and_keeps_the_messages(
    manager: SessionManager, talk: Say
) -> None:
    await talk(manager, "s", "q", "a")
    async with manager.session("t", "s", [Q2]) as turn:
        await turn.save_whole([7, 8, 9], [10], "b", "completed")
    async with manager.session("t", "s", [Q]) as after:
        assert list(after.history_ids) == [7, 8, 9, 10]
        assert after.history == (Q, A, Q2, Message("assistant", "b"))


async def test_turns_of_one_session_run_one_after_another_and_see_each_other(
    manager: SessionManager, talk: Say
) -> None:
    """A31"""
    await asyncio.gather(*(talk(manager, "s", str(n), f"answer {n}") for n in range(9)))
    async with manager.session("t", "s", []) as turn:
        assert [m.content for m in turn.history[::2]] == [str(n) for n in range(9)]


async def test_more_turns_of_one_session_than_may_wait_are_refused(store: Store, talk: Say) -> None:
    """A31"""
    manager = SessionManager(store, max_waiting=1)
    tries = await asyncio.gather(*(talk(manager, "s", "q", "a") for _ in range(3)), return_exceptions=True)
    assert [type(outcome).__name__ for outcome in tries] == ["Turn", "Turn", SessionBusy.__name__]


async def test_stateless_turns_wait_for_nobody(manager: SessionManager) -> None:
    async with manager.stateless("t", [Q]) as first, manager.stateless("t", [Q]) as second:
        await second.save([1], [2], "a", "completed")
        await first.save([1], [2], "a", "completed")


async def test_a_turn_that_fails_before_it_is_saved_leaves_no_trace_and_no_lock(
    manager: SessionManager, store: Store
) -> None:
    with pytest.raises(RuntimeError):
        async with manager.session("t", "s", [Q]):
            raise RuntimeError
    async with manager.session("t", "s", [Q]) as turn:
        assert turn.history == ()
    assert await store.conversations("t", None, 9) == []


async def test_saving_again_changes_nothing(manager: SessionManager, store: Store) -> None:
    """A33: what was saved first stands, and is recorded once."""
    kept: list[int] = []
    async with manager.session("t", "s", [Q]) as turn:
        first = await turn.save([1], [2, 3], "a", "completed", kept.append)
        assert await turn.save([1], [2], "", "cancelled", kept.append) is first
        await store.advance(turn.conversation, first)
    assert kept == [2]
    async with manager.session("t", "s", [Q2]) as after:
        assert after.history == (Q, A)


async def test_a_turn_whose_recording_fails_is_saved_all_the_same(manager: SessionManager) -> None:
    def broken(_: int) -> None:
        raise RuntimeError("the engine is gone")

    async with manager.session("t", "s", [Q]) as turn:
        with pytest.raises(RuntimeError, match="engine is gone"):
            await turn.save([1], [2], "a", "failed", broken)
    async with manager.session("t", "s", [Q2]) as after:
        assert after.history == (Q, A)


async def test_text_that_is_not_valid_unicode_is_refused_before_an_answer_is_computed(manager: SessionManager) -> None:
    for opening in (
        manager.session("t", "s", [Message("user", "\ud83d")]),
        manager.stateless("t", [Message("user", "\ud83d")]),
    ):
        with pytest.raises(ValueError, match="surrogates"):
            async with opening:
                pass


async def test_idle_stateless_conversations_expire_but_no_session_and_none_in_use(
    store: Store, talk: Say, ask: Say
) -> None:
    """A32: never during a turn, however long it takes."""
    now = 1000.0
    manager = SessionManager(store, clock=lambda: now)
    await talk(manager, "s", "q", "kept")
    root, _ = await ask(manager, (Q,), "a")
    for number in range(150):
        await ask(manager, (Message("user", f"idle {number}"),), "a")
    now += 10
    assert await manager.expire(older_than=20) == 0
    async with manager.stateless("t", [Q, A, Q2]) as turn:
        now += 100
        assert await manager.expire(older_than=50) == 150
        saved = await turn.save([1], [2], "b", "completed")
    assert saved.parent == root.id
    assert await manager.expire(older_than=50) == 0
    now += 100
    assert await manager.expire(older_than=50) == 1
    async with manager.session("t", "s", [Q2]) as after:
        assert len(after.history) == 2


async def test_what_expires_while_it_is_looked_up_is_a_miss(store: Store, ask: Say) -> None:
    now = 0.0
    manager = SessionManager(store, clock=lambda: now)
    for _ in range(10):
        await ask(manager, (Q,), "a")
        now += 10
        (turn, known), _ = await asyncio.gather(ask(manager, (Q, A, Q2), "b"), manager.expire(older_than=5))
        chain = await store.chain(turn.id)
        assert [id for t in chain[:-1] for id in (*t.prompt_ids, *t.output_ids)] == known
        now += 10
        await manager.expire(older_than=5)
