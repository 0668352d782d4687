"""Conversations as a client manages them: created, found, listed, annotated, branched and deleted."""

from __future__ import annotations

import pytest

from sessions.manager import SessionManager
from sessions.store import NotFound
from sessions.turns import Message, Turn

Q, A, Q2 = Message("user", "q"), Message("assistant", "a"), Message("user", "q2")


async def reply(manager: SessionManager, conversation: str, text: str, answer: str, told: str | None = None) -> Turn:
    messages = [Message("user", text)]
    async with manager.conversation("t", conversation, messages, instructions=told) as turn:
        return await turn.save(map(ord, text), map(ord, answer), answer, "completed", detail=b'{"n": 1}')


async def test_a_conversation_is_created_annotated_and_deleted_by_its_tenant_only(manager: SessionManager) -> None:
    made = await manager.catalogue.create("t", metadata={"topic": "tea"})
    assert await manager.catalogue.conversation("t", made.id) == made
    changed = await manager.catalogue.update("t", made.id, {"topic": "milk"})
    assert changed.metadata == {"topic": "milk"}
    for refused in (
        manager.catalogue.conversation("another", made.id),
        manager.catalogue.update("another", made.id, {}),
        manager.catalogue.delete("another", made.id),
        manager.catalogue.items("another", made.id),
    ):
        with pytest.raises(NotFound):
            await refused
    assert await manager.catalogue.conversation("t", made.id) == changed
    await manager.catalogue.delete("t", made.id)
    with pytest.raises(NotFound):
        await manager.catalogue.conversation("t", made.id)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({str(n): "" for n in range(17)}, "17 pairs; at most 16"),
        ({"k" * 65: ""}, "65 characters; at most 64"),
        ({"k": "v" * 513}, "513 characters; at most 512"),
        ({"k": "\ud83d"}, "half a surrogate"),
    ],
)
async def test_metadata_has_limits(manager: SessionManager, metadata: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        await manager.catalogue.create("t", metadata=metadata)


async def test_conversations_are_listed_newest_first_page_by_page(manager: SessionManager) -> None:
    made = [(await manager.catalogue.create("t")).id for _ in range(5)]
    await manager.catalogue.create("another")
    async with manager.branch("t", None, [Q]) as nameless:
        await nameless.save([1], [2], "a", "completed")
    seen, after = list[str](), None
    while True:
        page = await manager.catalogue.conversations("t", after, limit=2)
        seen += [each.id for each in page.values]
        after = seen[-1]
        if not page.more:
            break
    assert seen == made[::-1]
    with pytest.raises(NotFound):
        await manager.catalogue.conversations("another", after)


async def test_items_are_the_messages_on_the_path_to_the_leaf_in_pages_of_either_order(manager: SessionManager) -> None:
    made = await manager.catalogue.create("t", [Message("system", "be brief")])
    first = await reply(manager, made.id, "q", "a")
    await reply(manager, made.id, "q2", "b")
    async with manager.branch("t", first.id, [Message("user", "aside")]) as turn:
        await turn.save([1], [2], "elsewhere", "completed")
    whole = await manager.catalogue.items("t", made.id, newest_first=False)
    assert [item.message.content for item in whole.values] == ["be brief", "q", "a", "q2", "b"]
    assert not whole.more
    page = await manager.catalogue.items("t", made.id, after=whole.values[3].id, limit=2)
    assert [item.message.content for item in page.values] == ["a", "q"]
    assert page.more
    with pytest.raises(NotFound):
        await manager.catalogue.items("t", made.id, after="nothing")


async def test_messages_added_without_an_answer_are_encoded_by_the_next_turn(manager: SessionManager) -> None:
    made = await manager.catalogue.create("t", [Message("system", "be brief")])
    await reply(manager, made.id, "q", "a")
    async with manager.conversation("t", made.id, [Q2, Message("assistant", "given")]) as turn:
        added = await turn.save_messages()
    with pytest.raises(NotFound):
        await manager.catalogue.answer("t", added.id)
    async with manager.conversation("t", made.id, [Q]) as turn:
        assert turn.history == (Message("system", "be brief"), Q, A)
        assert list(turn.history_ids) == [ord("q"), ord("a")]
        assert turn.new_messages == (Q2, Message("assistant", "given"), Q)
        await turn.save([3, 4], [5], "b", "completed")
    async with manager.conversation("t", made.id, []) as turn:
        assert list(turn.history_ids) == [ord("q"), ord("a"), 3, 4, 5]
        assert len(turn.history) == 7


async def test_an_answer_is_found_with_what_was_kept_beside_it(manager: SessionManager) -> None:
    made = await manager.catalogue.create("t")
    saved = await reply(manager, made.id, "q", "a", told="be brief")
    found = await manager.catalogue.answer("t", saved.id)
    assert (found, found.detail, found.instructions) == (saved, b'{"n": 1}', "be brief")
    with pytest.raises(NotFound):
        await manager.catalogue.answer("another", saved.id)


async def test_any_past_answer_can_be_continued_and_no_leaf_moves(manager: SessionManager) -> None:
    made = await manager.catalogue.create("t")
    first = await reply(manager, made.id, "q", "a")
    last = await reply(manager, made.id, "q2", "b")
    for _ in range(2):
        async with manager.branch("t", first.id, [Q2]) as turn:
            assert turn.history == (Q, A)
            branch = await turn.save([1], [2], "another", "completed")
        assert (branch.parent, branch.conversation) == (first.id, made.id)
    assert (await manager.catalogue.conversation("t", made.id)).leaf == last.id
    for tenant, name in (("another", first.id), ("t", "nothing")):
        with pytest.raises(NotFound):
            async with manager.branch(tenant, name, [Q]):
                pass


async def test_a_deleted_answer_is_not_found_and_what_continues_it_goes_on(manager: SessionManager) -> None:
    async with manager.branch("t", None, [Q]) as turn:
        first = await turn.save([1], [2], "a", "completed")
    async with manager.branch("t", first.id, [Q2]) as turn:
        second = await turn.save([3], [4], "b", "completed")
    await manager.catalogue.delete_answer("t", first.id)
    for gone in (manager.catalogue.answer("t", first.id), manager.catalogue.delete_answer("t", first.id)):
        with pytest.raises(NotFound):
            await gone
    with pytest.raises(NotFound):
        async with manager.branch("t", first.id, [Q]):
            pass
    async with manager.branch("t", second.id, [Q]) as turn:
        assert list(turn.history_ids) == [1, 2, 3, 4]


async def test_when_all_answers_are_deleted_their_text_is_erased_unless_a_turn_goes_on_from_it(
    manager: SessionManager,
) -> None:
    async with manager.branch("t", None, [Q]) as turn:
        first = await turn.save([1], [2], "a", "completed")
    async with manager.branch("t", first.id, [Q2]) as turn:
        await manager.catalogue.delete_answer("t", first.id)
        assert await manager.expire(older_than=1e6) == 0
        second = await turn.save([3], [4], "b", "completed")
    assert await manager.expire(older_than=1e6) == 0
    await manager.catalogue.delete_answer("t", second.id)
    assert await manager.expire(older_than=1e6) == 1


async def test_what_is_not_to_be_stored_leaves_nothing(manager: SessionManager) -> None:
    made = await manager.catalogue.create("t")
    async with manager.conversation("t", made.id, [Q], stored=False) as turn:
        await turn.save([1], [2], "a", "completed")
    async with manager.branch("t", None, [Q], stored=False) as aside:
        await aside.save([1], [2], "a", "completed")
    for name in (turn.turn_id, aside.turn_id):
        with pytest.raises(NotFound):
            await manager.catalogue.answer("t", name)
    assert (await manager.catalogue.items("t", made.id)).values == ()


async def test_instructions_stand_before_one_turn_and_are_no_history(manager: SessionManager) -> None:
    made = await manager.catalogue.create("t")
    brief = Message("system", "be brief")
    await reply(manager, made.id, "q", "a", told="be brief")
    async with manager.conversation("t", made.id, [Q2], instructions="be brief") as turn:
        assert (turn.history, turn.new_messages) == ((brief, Q, A), (Q2,))
        assert list(turn.history_ids) == [ord("q"), ord("a")]
    async with manager.conversation("t", made.id, [Q2]) as turn:
        assert (turn.history, turn.new_messages, list(turn.history_ids)) == ((), (Q, A, Q2), [])
        await turn.save([7, 8], [9], "b", "completed")
    async with manager.conversation("t", made.id, []) as turn:
        assert list(turn.history_ids) == [7, 8, 9]
        assert turn.history == (Q, A, Q2, Message("assistant", "b"))


async def test_a_request_by_its_messages_never_meets_ids_made_with_instructions(manager: SessionManager) -> None:
    async with manager.branch("t", None, [Q], instructions="be brief") as turn:
        await turn.save([1], [2], "a", "completed")
    async with manager.stateless("t", [Q, A, Q2]) as plain:
        assert plain.history == ()


async def test_a_conversation_deleted_during_its_turn_does_not_come_back(manager: SessionManager) -> None:
    """A31: whoever deletes wins."""
    made = await manager.catalogue.create("t")
    async with manager.conversation("t", made.id, [Q]) as turn:
        await manager.catalogue.delete("t", made.id)
        with pytest.raises(NotFound):
            await turn.save([1], [2], "a", "completed")
    with pytest.raises(NotFound):
        await manager.catalogue.conversation("t", made.id)


async def test_a_conversation_is_a_session_by_its_own_name(manager: SessionManager) -> None:
    made = await manager.catalogue.create("t")
    async with manager.session("t", f"conv_{made.id}", [Q]) as turn:
        await turn.save([1], [2], "a", "completed")
    assert len((await manager.catalogue.items("t", made.id)).values) == 2
