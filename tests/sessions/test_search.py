"""Conversations found by their words, and in the order of their last use."""

from __future__ import annotations

import asyncio

import pytest

from sessions.manager import SessionManager
from sessions.planting import Seed
from sessions.search import EXCERPT, excerpt
from sessions.store import NotFound
from sessions.turns import Message


async def tell(manager: SessionManager, text: str, answer: str = "a", title: str = "", tenant: str = "t") -> str:
    made = await manager.catalogue.create(tenant, metadata={"title": title} if title else {})
    async with manager.conversation(tenant, made.id, [Message("user", text)]) as opened:
        await opened.save([1], [2], answer, "completed")
    return made.id


async def found(manager: SessionManager, *words: str, tenant: str = "t") -> list[str]:
    return [hit.conversation.id for hit in (await manager.catalogue.search(tenant, words)).values]


async def test_the_latest_used_come_first_and_a_turn_moves_its_conversation_up(manager: SessionManager) -> None:
    names = [await tell(manager, str(number)) for number in range(5)]
    async with manager.conversation("t", names[1], [Message("user", "again")]) as opened:
        await opened.save([1], [2], "a", "completed")
    order = [names[1], names[4], names[3], names[2], names[0]]
    first = await manager.catalogue.recent("t", limit=2)
    assert ([each.id for each in first.values], first.more) == (order[:2], True)
    rest = await manager.catalogue.recent("t", order[1], limit=9)
    assert ([each.id for each in rest.values], rest.more) == (order[2:], False)
    await manager.catalogue.delete("t", order[0])
    assert [each.id for each in (await manager.catalogue.recent("t")).values] == order[1:]
    for tenant, after in (("another", order[1]), ("t", order[0])):
        with pytest.raises(NotFound):
            await manager.catalogue.recent(tenant, after)
        with pytest.raises(NotFound):
            await manager.catalogue.search(tenant, ["x"], after)


async def test_a_conversation_without_a_name_is_not_listed(manager: SessionManager) -> None:
    async with manager.branch("t", None, [Message("user", "aside")]) as opened:
        await opened.save([1], [2], "a", "completed")
    assert (await manager.catalogue.recent("t")).values == ()
    assert await found(manager, "aside") == []


async def test_every_word_has_to_occur_wherever_it_is(manager: SessionManager) -> None:
    tea = await tell(manager, "How is Green tea made?", "From leaves, steamed.", title="Drinks")
    await tell(manager, "How is paper made?", "From wood.")
    assert await found(manager, "green", "STEAM", "drink") == [tea]
    assert await found(manager, "green", "wood") == []
    assert len(await found(manager, "made")) == 2
    assert await found(manager, "tea", tenant="another") == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Über den Wolken", "über"),
        ("ÜBER", "Über"),
        ("Die Straße", "straße"),
        ("die STRASSE", "straße"),
        ("Привет, мир", "привет"),
        ("ПРИВЕТ", "Привет"),
        ("今日は良い天気です", "天気"),
        ("مرحبا بالعالم", "بالعالم"),
        ('he said "yes\\no"', '"YES\\no"'),
        ("100% of a_b", "100%"),
        ("tab\there", "here"),
        ("🦆 duck", "🦆"),
    ],
)
async def test_words_of_any_script_are_found_in_another_case(manager: SessionManager, text: str, word: str) -> None:
    asked, answered = await tell(manager, text, "nothing"), await tell(manager, "nothing", text)
    titled = await tell(manager, "nothing", "nothing", title=text)
    await tell(manager, "100 of aXb, other things", "entirely")
    assert sorted(await found(manager, word)) == sorted([asked, answered, titled])


@pytest.mark.parametrize("word", ["role", "content", "system", "secret", "conv_", "metadata", "_", "%"])
async def test_only_what_was_said_is_found_not_how_it_is_kept(manager: SessionManager, word: str) -> None:
    made = await manager.catalogue.create("t", [Message("system", "secret")], {"other": "metadata"})
    async with manager.conversation("t", made.id, [Message("user", "x")]) as opened:
        await opened.save([1], [2], "y", "completed")
    assert await found(manager, word) == []


async def test_a_deleted_answer_is_not_found(manager: SessionManager) -> None:
    made = await manager.catalogue.create("t")
    async with manager.conversation("t", made.id, [Message("user", "asked")]) as opened:
        saved = await opened.save([1], [2], "answered", "completed")
    assert await found(manager, "asked") == await found(manager, "answered") == [made.id]
    await manager.catalogue.delete_answer("t", saved.id)
    assert await found(manager, "asked") == await found(manager, "answered") == []


async def test_a_search_goes_on_page_by_page_past_any_number_that_do_not_match(manager: SessionManager) -> None:
    texts = ["needle" if number % 50 == 0 else "user role hay" for number in range(201)]
    seeds = [[Seed(parent=None, messages=(Message("user", text),), answer=None, created=1.0)] for text in texts]
    made = await asyncio.gather(*(manager.catalogue.plant("t", each, 0) for each in seeds))
    ordered = sorted(made[::50], key=lambda each: (each.used, each.id), reverse=True)
    wanted = [each.id for each in ordered]
    first = await manager.catalogue.search("t", ["needle"], limit=2)
    assert ([hit.conversation.id for hit in first.values], first.more) == (wanted[:2], True)
    rest = await manager.catalogue.search("t", ["needle"], wanted[1], limit=3)
    assert ([hit.conversation.id for hit in rest.values], rest.more) == (wanted[2:], False)


async def test_a_hit_shows_the_place_where_most_of_the_words_are(manager: SessionManager) -> None:
    await tell(manager, "one thing", f"{'far ' * 50}\n\none and\n  two\tthings <b>{' more' * 50}", title="three")
    hit = (await manager.catalogue.search("t", ["two", "one", "three"])).values[0]
    assert hit.excerpt is not None
    assert len(hit.excerpt) <= EXCERPT
    assert hit.excerpt.startswith("…far")
    assert "far one and two things <b> more more" in hit.excerpt
    assert hit.excerpt.endswith(" more mo…")
    assert (await manager.catalogue.search("t", ["three"])).values[0].excerpt is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("short", "short"),
        ("", ""),
        ("x" * 500, "x" * (EXCERPT - 1) + "…"),
        ("ß" * 300 + "needle", "…" + "ß" * 50 + "needle"),
        ("needle" + " " * 500, "needle…"),
    ],
)
def test_an_excerpt_is_one_short_line(text: str, shown: str) -> None:
    assert excerpt(text, ["needle"]) == shown
