"""Conversations through the official client: made, found, annotated, read item by item, deleted."""

from __future__ import annotations

from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError

from chatserve.server.limits import ServerLimits
from tests.server.conftest import ANSWER
from tests.server.running_server import MODEL, Parts, Running, serving


async def say(client: AsyncOpenAI, text: object, conversation: str, **more: Any) -> Any:
    return await client.responses.create(model=MODEL, input=text, conversation=conversation, **more)


async def texts(client: AsyncOpenAI, conversation: str, **more: Any) -> list[str]:
    return [item.content[0].text async for item in client.conversations.items.list(conversation, **more)]


def prompt(server: Running) -> str:
    return server.parts.tokenizer.decode(server.engine.prompt_ids())


async def test_a_conversation_is_made_found_annotated_and_deleted(server: Running) -> None:
    client = server.openai()
    made = await client.conversations.create(metadata={"topic": "moon"})
    assert made.id.startswith("conv_")
    assert (made.object, made.metadata) == ("conversation", {"topic": "moon"})
    assert await client.conversations.retrieve(made.id) == made
    updated = await client.conversations.update(made.id, metadata={"topic": "sun"})
    assert (updated.id, updated.created_at, updated.metadata) == (made.id, made.created_at, {"topic": "sun"})
    deleted = await client.conversations.delete(made.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (made.id, True, "conversation.deleted")
    for gone in (client.conversations.retrieve(made.id), say(client, "x", made.id), texts(client, made.id)):
        with pytest.raises(NotFoundError):
            await gone


async def test_each_turn_goes_on_where_the_last_one_ended(server: Running) -> None:
    client = server.openai()
    made = await client.conversations.create()
    first = await say(client, "one", made.id)
    second = await say(client, "two", {"id": made.id})
    assert first.conversation.id == second.conversation.id == made.id
    assert second.usage.input_tokens_details.cached_tokens == first.usage.input_tokens + len(ANSWER)
    assert prompt(server) == f"user\none\nassistant\n{ANSWER}\nuser\ntwo\nassistant\n"


async def test_items_given_first_and_later_are_read_by_the_next_response(server: Running) -> None:
    client = server.openai()
    made = await client.conversations.create(items=[{"role": "system", "content": "Be brief."}])
    added = await client.conversations.items.create(
        made.id, items=[{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    )
    assert [item.content[0].type for item in added.data] == ["input_text", "output_text"]
    assert not added.has_more
    await say(client, "three", made.id)
    assert prompt(server) == "system\nBe brief.\nuser\none\nassistant\ntwo\nuser\nthree\nassistant\n"
    assert await texts(client, made.id, order="asc") == ["Be brief.", "one", "two", "three", ANSWER]


async def test_items_are_listed_in_pages_newest_first_or_last(server: Running) -> None:
    client = server.openai()
    made = await client.conversations.create()
    for text in "abc":
        await say(client, text, made.id)
    assert await texts(client, made.id, limit=2) == [ANSWER, "c", ANSWER, "b", ANSWER, "a"]
    assert await texts(client, made.id, limit=4, order="asc") == ["a", ANSWER, "b", ANSWER, "c", ANSWER]
    page = await client.conversations.items.list(made.id, limit=2, order="asc", include=[])
    assert (page.has_more, page.last_id) == (True, page.data[-1].id)
    rest = await client.conversations.items.list(made.id, after=page.last_id, order="asc")
    assert [item.content[0].text for item in rest.data] == ["b", ANSWER, "c", ANSWER]
    assert not rest.has_more


async def test_an_item_is_found_by_the_id_that_the_stream_gave_it(server: Running) -> None:
    client = server.openai()
    made = await client.conversations.create()
    reply = await say(client, "one", made.id)
    item = await client.conversations.items.retrieve(reply.output[0].id, conversation_id=made.id)
    assert (item.role, item.status, item.content[0].text) == ("assistant", "completed", ANSWER)
    with pytest.raises(NotFoundError):
        await client.conversations.items.retrieve("msg_none", conversation_id=made.id)


async def test_a_deleted_item_is_read_by_nobody_but_branches_before_it(server: Running) -> None:
    client = server.openai()
    made = await client.conversations.create(items=[{"role": "system", "content": "Be brief."}])
    first = await say(client, "one", made.id)
    await say(client, "two", made.id, instructions="Be kind.")
    items = [item async for item in client.conversations.items.list(made.id, order="asc")]
    for item in (items[0], items[2]):
        left = await client.conversations.items.delete(item.id, conversation_id=made.id)
        assert (left.id, left.object) == (made.id, "conversation")
        with pytest.raises(NotFoundError):
            await client.conversations.items.retrieve(item.id, conversation_id=made.id)
        with pytest.raises(NotFoundError):
            await client.conversations.items.delete(item.id, conversation_id=made.id)
    assert await texts(client, made.id, order="asc") == ["one", "two", ANSWER]
    third = await say(client, "three", made.id, instructions="Be kind.")
    assert prompt(server) == (f"system\nBe kind.\nuser\none\nuser\ntwo\nassistant\n{ANSWER}\nuser\nthree\nassistant\n")
    fourth = await say(client, "four", made.id, instructions="Be kind.")
    assert fourth.usage.input_tokens_details.cached_tokens == third.usage.input_tokens + len(ANSWER)
    assert await texts(client, made.id, order="asc") == ["one", "two", ANSWER, "three", ANSWER, "four", ANSWER]
    await client.responses.create(model=MODEL, input="2", previous_response_id=first.id)
    assert prompt(server) == f"system\nBe brief.\nuser\none\nassistant\n{ANSWER}\nuser\n2\nassistant\n"


async def test_more_text_than_one_request_may_hold_is_refused(parts: Parts) -> None:
    parts.limits = ServerLimits(text=10)
    async with serving(parts) as server:
        client = server.openai()
        made = await client.conversations.create()
        given = [{"role": "user", "content": "x" * 11}]
        for asked in (
            client.conversations.create(items=given),
            client.conversations.items.create(made.id, items=given),
            client.responses.create(model=MODEL, input=given),
            client.responses.create(model=MODEL, input="x", instructions="x" * 10),
        ):
            with pytest.raises(BadRequestError) as error:
                await asked
            assert "10" in error.value.body["message"]


async def test_an_answer_that_was_cut_is_an_incomplete_item(server: Running) -> None:
    client = server.openai()
    made = await client.conversations.create()
    await say(client, "one", made.id, max_output_tokens=3)
    newest = (await client.conversations.items.list(made.id, limit=1)).data[0]
    assert (newest.status, newest.content[0].text) == ("incomplete", ANSWER[:3])


async def test_a_branch_leaves_its_conversation_as_it_was(server: Running) -> None:
    client = server.openai()
    made = await client.conversations.create()
    first = await say(client, "one", made.id)
    await say(client, "two", made.id)
    branch = await client.responses.create(model=MODEL, input="2", previous_response_id=first.id)
    assert branch.conversation is None
    assert await texts(client, made.id, order="asc") == ["one", ANSWER, "two", ANSWER]


async def test_what_is_not_to_be_stored_is_not_added(server: Running) -> None:
    client = server.openai()
    made = await client.conversations.create()
    await say(client, "one", made.id)
    await say(client, "two", made.id, store=False)
    assert f"{ANSWER}\nuser\ntwo" in prompt(server)
    assert await texts(client, made.id, order="asc") == ["one", ANSWER]


async def test_conversations_last_across_a_restart(parts: Parts) -> None:
    """A12"""
    async with serving(parts) as server:
        made = await server.openai().conversations.create(metadata={"k": "v"})
        first = await say(server.openai(), "one", made.id)
        ids = list(server.engine.prompt_ids())
    parts.running = type(parts.running)()
    async with serving(parts) as server:
        client = server.openai()
        assert await client.conversations.retrieve(made.id) == made
        assert (await client.responses.retrieve(first.id)).output_text == ANSWER
        await say(client, "two", made.id)
    ids += parts.tokenizer.encode(ANSWER)
    assert list(parts.engine.prompt_ids())[: len(ids)] == ids


async def test_a_callers_conversations_are_listed_newest_first(server: Running) -> None:
    """A route of our own: a client that shows them has to find them."""
    client = server.openai()
    made = [(await client.conversations.create(metadata={"n": str(n)})).id for n in range(3)]
    listed = (await server.http().get("/v1/conversations", params={"limit": 2})).json()
    assert {one["id"] for one in listed["data"]} <= set(made)
    assert listed["has_more"]
    rest = (await server.http().get("/v1/conversations", params={"after": listed["last_id"]})).json()
    assert sorted(one["id"] for one in listed["data"] + rest["data"]) == sorted(made)


async def test_conversations_of_others_are_not_found(server: Running) -> None:
    client = server.openai()
    mine = await client.conversations.create(extra_body={"cache_salt": "mine"})
    for seen in (
        client.conversations.retrieve(mine.id),
        client.conversations.update(mine.id, metadata={}),
        client.conversations.delete(mine.id),
        client.conversations.items.create(mine.id, items=[{"role": "user", "content": "x"}]),
        texts(client, mine.id),
        say(client, "x", mine.id),
        client.conversations.retrieve("none"),
    ):
        with pytest.raises(NotFoundError):
            await seen
    assert await client.conversations.retrieve(mine.id, extra_query={"cache_salt": "mine"}) == mine


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("", {"items": [{"type": "reasoning"}]}, "items[0].type"),
        ("", {"items": "x"}, "items"),
        ("", {"metadata": []}, "metadata"),
        ("/{id}", {"metadata": {"k": 1}}, "metadata"),
        ("/{id}/items", {}, "items"),
        ("/{id}/items", {"items": []}, "items"),
        ("/{id}/items?limit=0", None, "limit"),
        ("/{id}/items?limit=101", None, "limit"),
        ("/{id}/items?limit=x", None, "limit"),
        ("/{id}/items?order=up", None, "order"),
    ],
)
async def test_bad_input_is_refused_by_name(
    server: Running, path: str, body: dict[str, Any] | None, param: str
) -> None:
    made = await server.openai().conversations.create()
    url = "/v1/conversations" + path.replace("{id}", made.id)
    reply = await (server.http().get(url) if body is None else server.http().post(url, json=body))
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


async def test_an_item_to_go_on_after_that_is_not_there_is_not_found(server: Running) -> None:
    client = server.openai()
    made = await client.conversations.create()
    with pytest.raises(NotFoundError):
        await client.conversations.items.list(made.id, after="msg_none")
    with pytest.raises(BadRequestError):
        await client.conversations.items.create(made.id, items=[{"role": "critic", "content": "x"}])
