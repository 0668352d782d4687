"""Responses through the official client: kept, streamed with typed events, branched from, cancelled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, ConflictError, NotFoundError
from openai.types.conversations import Conversation, ConversationItemList
from openai.types.responses import Response, ResponseItemList, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.server.bytes_tokenizer import TEMPLATE, bytes_tokenizer
from tests.server.conftest import ANSWER, MAX_TOKENS
from tests.server.running_server import MODEL, Running, open_parts, serving
from tests.server.scripted import ScriptedEngine
from tests.server.test_disconnects import until
from tests.server.wire_client import WireClient

TYPES = [
    "response.created",
    "response.in_progress",
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]


async def say(client: AsyncOpenAI, text: object, **more: Any) -> Any:
    return await client.responses.create(model=MODEL, input=text, **more)


def prompt(server: Running) -> str:
    return server.parts.tokenizer.decode(server.engine.prompt_ids())


async def test_a_response_says_what_was_asked_what_came_of_it_and_what_it_took(server: Running) -> None:
    """A20"""
    reply = await say(server.openai(), "Hi", temperature=0.5, top_p=0.9, max_output_tokens=100, metadata={"k": "v"})
    assert reply.id.startswith("resp_")
    assert (reply.object, reply.status, reply.model) == ("response", "completed", MODEL)
    assert reply.output_text == ANSWER
    assert (reply.output[0].role, reply.output[0].status) == ("assistant", "completed")
    assert (reply.temperature, reply.top_p, reply.max_output_tokens) == (0.5, 0.9, 100)
    assert (reply.metadata, reply.error, reply.incomplete_details) == ({"k": "v"}, None, None)
    assert (reply.previous_response_id, reply.conversation, reply.instructions) == (None, None, None)
    assert (reply.tools, reply.tool_choice, reply.parallel_tool_calls) == ([], "auto", True)
    usage = reply.usage
    assert usage.input_tokens == len("user\nHi\nassistant\n") + 3
    assert usage.output_tokens == len(ANSWER) + 1
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    assert usage.input_tokens_details.cached_tokens == 0
    assert usage.input_tokens_details.cache_write_tokens == usage.input_tokens
    assert usage.output_tokens_details.reasoning_tokens == 0


async def test_all_that_goes_out_is_valid_by_the_clients_own_models(server: Running) -> None:
    """The client itself reads without checking."""
    http = server.http()
    asked = {"input": [{"role": role, "content": "x"} for role in ("developer", "assistant", "user")]}
    made = (await http.post("/v1/conversations", json={"items": asked["input"], "metadata": {"k": "v"}})).json()
    Conversation.model_validate(made, strict=True)
    reply = (await http.post("/v1/responses", json=asked | {"conversation": made["id"]})).json()
    Response.model_validate(reply, strict=True)
    items = (await http.get(f"/v1/conversations/{made['id']}/items?order=asc")).json()
    ConversationItemList.model_validate(items, strict=True)
    assert [item["role"] for item in items["data"]][:3] == ["developer", "assistant", "user"]
    given = (await http.get(f"/v1/responses/{reply['id']}/input_items")).json()
    ResponseItemList.model_validate(given, strict=True)
    lines = (await http.post("/v1/responses", json={"input": "x", "stream": True})).text.splitlines()
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    assert len(events) > len(TYPES)
    for event in events:
        TypeAdapter(ResponseStreamEvent).validate_json(event, strict=True)


async def test_items_of_every_role_reach_the_prompt_in_order(server: Running) -> None:
    await say(
        server.openai(),
        [
            {"role": "developer", "content": "Be brief."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one"}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "two"}]},
            {"role": "user", "content": "three"},
        ],
    )
    assert prompt(server) == "system\nBe brief.\nuser\none\nassistant\ntwo\nuser\nthree\nassistant\n"


async def test_a_stored_response_reads_as_it_was_answered(server: Running) -> None:
    client = server.openai()
    reply = await say(client, "Hi", instructions="Be kind.", metadata={"k": "v"}, max_output_tokens=5)
    assert (reply.status, reply.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert await client.responses.retrieve(reply.id) == reply


async def test_input_items_are_what_this_response_was_given(server: Running) -> None:
    client = server.openai()
    first = await say(client, "zero")
    reply = await say(client, [{"role": "user", "content": str(n)} for n in range(5)], previous_response_id=first.id)
    items = [item async for item in client.responses.input_items.list(reply.id, limit=2, order="asc")]
    assert [item.content[0].text for item in items] == ["0", "1", "2", "3", "4"]
    assert [item.content[0].type for item in items] == ["input_text"] * 5
    newest = await client.responses.input_items.list(reply.id, limit=2)
    assert [item.content[0].text for item in newest.data] == ["4", "3"]
    assert newest.has_more


async def test_a_response_goes_on_from_any_past_one_and_reuses_its_exact_past(server: Running) -> None:
    """A regenerated and an edited turn are branches, and the first answer stays what it was."""
    client = server.openai()
    first = await say(client, "one")
    second = await say(client, "two", previous_response_id=first.id)
    again = await say(client, "two", previous_response_id=first.id)
    edited = await say(client, "2", previous_response_id=first.id)
    past = first.usage.input_tokens + len(ANSWER)
    assert second.usage.input_tokens_details.cached_tokens == past
    assert edited.usage.input_tokens_details.cached_tokens >= past
    assert prompt(server) == f"user\none\nassistant\n{ANSWER}\nuser\n2\nassistant\n"
    assert [reply.previous_response_id for reply in (second, again, edited)] == [first.id] * 3
    assert len({first.id, second.id, again.id, edited.id}) == 4
    await say(client, "three", previous_response_id=second.id)
    assert prompt(server).count(ANSWER) == 2


async def test_instructions_stand_first_and_are_not_carried_over(server: Running) -> None:
    client = server.openai()
    first = await say(client, "one", instructions="Be kind.")
    assert prompt(server) == "system\nBe kind.\nuser\none\nassistant\n"
    assert first.instructions == "Be kind."
    same = await say(client, "two", instructions="Be kind.", previous_response_id=first.id)
    assert same.usage.input_tokens_details.cached_tokens == first.usage.input_tokens + len(ANSWER)
    await say(client, "two", previous_response_id=first.id)
    assert prompt(server) == f"user\none\nassistant\n{ANSWER}\nuser\ntwo\nassistant\n"
    await say(client, "three", instructions="Be curt.", previous_response_id=same.id)
    assert prompt(server).startswith("system\nBe curt.\nuser\none\nassistant\n")
    assert "Be kind." not in prompt(server)


async def test_what_is_not_to_be_stored_leaves_nothing(server: Running) -> None:
    client = server.openai()
    first = await say(client, "one")
    reply = await say(client, "two", previous_response_id=first.id, store=False)
    assert (reply.store, reply.output_text) == (False, ANSWER)
    with pytest.raises(NotFoundError):
        await client.responses.retrieve(reply.id)


async def test_a_deleted_response_is_gone_but_what_went_on_from_it_stays(server: Running) -> None:
    client = server.openai()
    first = await say(client, "one")
    second = await say(client, "two", previous_response_id=first.id)
    await client.responses.delete(first.id)
    for gone in (client.responses.retrieve(first.id), say(client, "x", previous_response_id=first.id)):
        with pytest.raises(NotFoundError):
            await gone
    assert (await client.responses.retrieve(second.id)).output_text == ANSWER
    await say(client, "three", previous_response_id=second.id)
    assert prompt(server).startswith(f"user\none\nassistant\n{ANSWER}\nuser\ntwo\n")


async def test_a_stream_brings_every_typed_event_in_order_and_numbered(server: Running) -> None:
    """A22"""
    server.engine.pace = 0.002
    stream = await say(server.openai(), "Hi", stream=True)
    events = [event async for event in stream]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert list(dict.fromkeys(kinds)) == [*TYPES, "response.completed"]
    assert kinds.count("response.output_text.delta") == len(ANSWER)
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == ANSWER
    assert events[0].response.status == "in_progress"
    last = events[-1].response
    assert (last.id, last.status, last.output_text) == (events[0].response.id, "completed", ANSWER)
    assert last.usage.output_tokens == len(ANSWER) + 1
    assert await server.openai().responses.retrieve(last.id) == last


async def test_the_clients_own_stream_helper_understands_it(server: Running) -> None:
    async with server.openai().responses.stream(model=MODEL, input="Hi") as stream:
        snapshots = [event.snapshot async for event in stream if event.type == "response.output_text.delta"]
        final = await stream.get_final_response()
    assert snapshots[-1] == final.output_text == ANSWER


async def test_every_event_is_named_and_nothing_follows_the_last(server: Running) -> None:
    client = await WireClient.connect(server.port)
    await client.post("/v1/responses", {"input": "Hi", "stream": True})
    await client.head()
    events = (b"".join(await client.events())).decode().split("\n\n")[:-1]
    assert [event.split("\n")[0] for event in events[:4]] == [f"event: {kind}" for kind in TYPES[:4]]
    assert events[-1].startswith("event: response.completed\ndata: {")


async def test_a_stream_cut_by_its_limit_ends_incomplete(server: Running) -> None:
    stream = await say(server.openai(), "Hi", stream=True, max_output_tokens=5)
    last = [event async for event in stream][-1]
    assert (last.type, last.response.status) == ("response.incomplete", "incomplete")
    assert last.response.incomplete_details.reason == "max_output_tokens"
    assert (last.response.output_text, last.response.output[0].status) == (ANSWER[:5], "incomplete")


async def test_a_stream_whose_engine_dies_ends_failed_and_is_kept_as_it_was_sent(server: Running) -> None:
    server.engine.pace = 0.02
    client = server.openai()
    events = []
    async for event in await say(client, "Hi", stream=True):
        events.append(event)
        if event.type == "response.output_text.delta" and server.engine.alive:
            server.engine.die()
    last = events[-1]
    assert (last.type, last.response.status, last.response.error.code) == ("response.failed", "failed", "server_error")
    sent = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    await until(lambda: not len(server.parts.running))
    kept = await client.responses.retrieve(last.response.id)
    assert (kept.status, kept.output_text) == ("failed", sent)


async def test_a_running_response_can_be_read_and_cancelled_and_is_kept_as_it_was_sent(server: Running) -> None:
    """A24, A40: its stream ends in order."""
    server.engine.pace = 0.01
    client = server.openai()
    conversation = await client.conversations.create()
    sent, cancelled, name = "", None, ""
    async for event in await say(client, "Hi", stream=True, conversation=conversation.id):
        if event.type == "response.created":
            name = event.response.id
        if event.type == "response.output_text.delta":
            sent += event.delta
            if len(sent) == 4:
                assert (await client.responses.retrieve(name)).status == "in_progress"
                cancelled = await client.responses.cancel(name)
        last = event
    assert server.engine.last.stopped
    assert (last.type, last.response.status, last.response.output_text) == ("response.incomplete", "cancelled", sent)
    assert (cancelled.status, cancelled.output_text) == ("cancelled", sent)
    kept = await client.responses.retrieve(name)
    assert (kept.status, kept.output_text) == ("cancelled", sent)
    assert await client.responses.cancel(name) == kept
    server.engine.pace = 0
    await say(client, "more", conversation=conversation.id)
    assert prompt(server) == f"user\nHi\nassistant\n{sent}\nuser\nmore\nassistant\n"


async def test_one_cancelled_before_its_first_word_is_kept_without_words(server: Running) -> None:
    server.engine.prefill = 60
    client = server.openai()
    stream = await say(client, "Hi", stream=True)
    created = await anext(aiter(stream))
    assert (await client.responses.cancel(created.response.id)).output_text == ""
    assert [event async for event in stream][-1].response.status == "cancelled"
    assert (await client.responses.retrieve(created.response.id)).status == "cancelled"


async def test_a_reader_that_leaves_cancels_and_what_it_was_sent_is_saved(server: Running) -> None:
    """A24"""
    server.engine.pace = 0.02
    client = server.openai()
    conversation = await client.conversations.create()
    stream = await say(client, "Hi", stream=True, conversation=conversation.id)
    seen, name = "", ""
    async for event in stream:
        name = event.response.id if event.type == "response.created" else name
        seen += event.delta if event.type == "response.output_text.delta" else ""
        if len(seen) == 5:
            break
    await stream.close()
    await until(lambda: server.engine.last.stopped and not server.parts.running)
    kept = await client.responses.retrieve(name)
    assert kept.status == "cancelled"
    assert kept.output_text.startswith(seen)
    assert len(kept.output_text) < len(ANSWER)


async def test_who_has_just_left_an_answer_can_go_on_from_it_at_once(server: Running) -> None:
    """However late the server hears of the leaving: here it has not when the next turn comes."""
    server.engine.pace = 0.05
    client = server.openai()
    stream = await say(client, "Hi", stream=True)
    name = (await anext(aiter(stream))).response.id
    following = asyncio.create_task(say(client, "more", previous_response_id=name))
    seen = [event.delta async for event in stream if event.type == "response.output_text.delta"]
    assert (await following).previous_response_id == name
    assert prompt(server) == f"user\nHi\nassistant\n{''.join(seen)}\nuser\nmore\nassistant\n"


async def test_a_slow_reader_gets_fewer_and_longer_deltas(server: Running) -> None:
    server.engine.script = lambda _request: server.parts.tokenizer.encode("word " * 100)
    server.engine.pace = None
    stream = await say(server.openai(), "Hi", stream=True)
    deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "word " * 100
    assert len(deltas) < 10


async def test_turns_of_one_conversation_run_in_order_and_too_many_are_refused(server: Running) -> None:
    """A36: one runs, eight wait, the next is told so at once."""
    client = server.openai()
    conversation = await client.conversations.create()
    server.engine.prefill = 60
    asked = []
    for number in range(10):
        asked.append(asyncio.create_task(say(client, str(number), conversation=conversation.id)))
        await asyncio.sleep(0.02)
    done, waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    error = done.pop().exception()
    assert isinstance(error, ConflictError)
    assert error.body["code"] == "conversation_busy"
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    server.engine.prefill = 0
    await asyncio.gather(*(say(client, text, conversation=conversation.id) for text in ("one", "two")))
    await say(client, "three", conversation=conversation.id)
    assert prompt(server) in {
        "".join(f"user\n{text}\nassistant\n{ANSWER}\n" for text in order) + "user\nthree\nassistant\n"
        for order in (("one", "two"), ("two", "one"))
    }


async def test_a_turn_whose_conversation_is_deleted_meanwhile_says_that_it_was_not_saved(server: Running) -> None:
    server.engine.pace = 0.005
    client = server.openai()
    conversation = await client.conversations.create()
    async for event in await say(client, "Hi", stream=True, conversation=conversation.id):
        if event.type == "response.in_progress":
            await client.conversations.delete(conversation.id)
        last = event
    assert (last.type, last.response.status) == ("response.failed", "failed")
    assert "could not be saved" in last.response.error.message
    with pytest.raises(NotFoundError):
        await client.responses.retrieve(last.response.id)


async def test_a_template_that_rewrites_history_reads_a_conversation_without_what_was_deleted(
    engine: ScriptedEngine, tmp_path: Path
) -> None:
    """A04"""
    other = await open_parts(tmp_path / "other", bytes_tokenizer("{{ messages | length }}" + TEMPLATE), engine)
    async with serving(other) as server:
        client = server.openai()
        conversation = await client.conversations.create()
        await say(client, "one", conversation=conversation.id)
        first = (await client.conversations.items.list(conversation.id, order="asc")).data[0]
        await client.conversations.items.delete(first.id, conversation_id=conversation.id)
        await say(client, "two", conversation=conversation.id, instructions="Be kind.")
        assert prompt(server) == f"3system\nBe kind.\nassistant\n{ANSWER}\nuser\ntwo\nassistant\n"
        await say(client, "three", conversation=conversation.id)
        assert prompt(server).startswith(f"4assistant\n{ANSWER}\nuser\ntwo\n")
    await other.store.close()


async def test_a_server_that_leaves_ends_its_streams_failed_and_keeps_what_was_sent(server: Running) -> None:
    server.engine.pace = 0.02
    client = server.openai()
    events = []
    async for event in await say(client, "Hi", stream=True):
        events.append(event)
        if event.type == "response.output_text.delta" and len(events) == 6:
            server.parts.running.interrupt()
    assert (events[-1].type, events[-1].response.status) == ("response.failed", "failed")
    sent = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert (await client.responses.retrieve(events[0].response.id)).output_text == sent


async def test_branches_wait_for_nobody(server: Running) -> None:
    client = server.openai()
    first = await say(client, "one")
    server.engine.prefill = 0.05
    await asyncio.gather(*(say(client, str(n), previous_response_id=first.id) for n in range(10)))
    assert len(server.engine.streams) == 11


async def test_ids_and_tenants_of_others_are_not_found(server: Running) -> None:
    client = server.openai()
    mine = await say(client, "one", extra_body={"cache_salt": "mine"})
    with pytest.raises(NotFoundError):
        await client.responses.retrieve(mine.id)
    with pytest.raises(NotFoundError) as error:
        await say(client, "two", previous_response_id=mine.id)
    assert error.value.body["code"] == "previous_response_not_found"
    found = await client.responses.retrieve(mine.id, extra_query={"cache_salt": "mine"})
    assert found.output_text == ANSWER
    for name in ("resp_none", "conv_none", "none"):
        with pytest.raises(NotFoundError):
            await client.responses.retrieve(name)
        with pytest.raises(NotFoundError):
            await client.responses.cancel(name)
        with pytest.raises(NotFoundError):
            await client.responses.delete(name)


@pytest.mark.parametrize(
    ("asked", "param", "said"),
    [
        ({"input": None}, "input", "null"),
        ({"input": []}, "input", "at least one"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].type", "'function_call'"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type", "'item_reference'"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role", "'tool'"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
            "input[0].content",
            "'input_image'",
        ),
        ({"conversation": "conv_a", "previous_response_id": "resp_b"}, "previous_response_id", "both"),
        ({"conversation": 7}, "conversation", "7"),
        ({"conversation": "other_a"}, "conversation", "'other_a'"),
        ({"previous_response_id": "a"}, "previous_response_id", "'resp_'"),
        ({"max_output_tokens": 0}, "max_output_tokens", "at least 1"),
        ({"temperature": 3}, "temperature", "from 0.0 to 2.0"),
        ({"truncation": "auto"}, "truncation", "'auto'"),
        ({"background": True}, "background", "true"),
        ({"tools": [{"type": "web_search"}]}, "tools", "a list of 1"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format", "an object"),
        ({"reasoning": {"effort": "high"}}, "reasoning.effort", "'high'"),
        ({"include": ["message.output_text.logprobs"]}, "include", "logprobs"),
        ({"metadata": {str(n): "" for n in range(17)}}, "metadata", "16"),
        ({"metadata": {"k": "v" * 513}}, "metadata", "512"),
        ({"metadata": {"k" * 65: "v"}}, "metadata", "64"),
        ({"store": "yes"}, "store", "'yes'"),
        ({"instructions": 7}, "instructions", "7"),
        ({"input": "x" * MAX_TOKENS}, "input", str(MAX_TOKENS)),
    ],
)
async def test_bad_input_is_refused_with_its_name_its_value_and_the_limit(
    server: Running, asked: dict[str, Any], param: str, said: str
) -> None:
    """A29 to A35"""
    with pytest.raises(BadRequestError) as error:
        await server.openai().responses.create(model=MODEL, extra_body={"input": "Hi"} | asked)
    assert error.value.body["param"] == param
    assert said in error.value.body["message"]
    assert server.engine.streams == []


@pytest.mark.parametrize(
    "asked",
    [
        {"truncation": "disabled", "background": False, "tools": [], "tool_choice": "auto", "include": []},
        {"text": {"format": {"type": "text"}}, "reasoning": {"effort": "none"}, "parallel_tool_calls": True},
        {"text": {"verbosity": "medium"}, "reasoning": {"effort": None, "summary": None}},
        {"user": "me", "service_tier": "auto", "a_field_of_tomorrow": 1, "metadata": None, "store": None},
        {"extra_body": {"top_k": 5, "min_p": 0.1, "seed": 7, "ignore_eos": False, "priority": 0}},
    ],
)
async def test_what_asks_for_nothing_else_is_taken(server: Running, asked: dict[str, Any]) -> None:
    body = asked.pop("extra_body", {}) | asked
    assert (await say(server.openai(), "Hi", extra_body=body)).output_text == ANSWER


async def test_our_own_sampling_fields_work_as_in_chat(server: Running) -> None:
    reply = await say(server.openai(), "Hi", extra_body={"stop": ["there"], "top_k": 3})
    assert (reply.output_text, reply.status) == ("Hello ", "completed")
    assert server.engine.last.request.params.top_k == 3


async def test_an_answer_read_again_by_its_words_is_found_by_a_chat_too(server: Running) -> None:
    """One store: what a response said is a chat's past, unless instructions that the chat does not repeat made it."""
    client = server.openai()
    reply = await say(client, "one")
    told = [{"role": "user", "content": "one"}, {"role": "assistant", "content": ANSWER}]
    chat = await client.chat.completions.create(model=MODEL, messages=[*told, {"role": "user", "content": "two"}])
    assert chat.usage.prompt_tokens_details.cached_tokens == reply.usage.input_tokens + len(ANSWER)
