"""Knowing why, as a client sees it: where a prompt's tokens came from, and what memory its conversation has now."""

from __future__ import annotations

import asyncio
from array import array
from pathlib import Path
from typing import Any

import pytest

from chatserve.engine.messages import Reuse, ReuseStop
from chatserve.server.explaining import Explain
from chatserve.text.tokenizer import Tokenizer
from tests.server.bytes_tokenizer import TEMPLATE, bytes_tokenizer
from tests.server.conftest import ANSWER
from tests.server.running_server import MODEL, Running, open_parts, serving
from tests.server.scripted import ScriptedEngine
from tests.server.test_disconnects import until


async def say(server: Running, text: str, **more: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    return await server.openai().chat.completions.create(
        model=MODEL, messages=messages, extra_body={"session_id": "s"}, **more
    )


def why(usage: Any) -> dict[str, Any]:
    details = usage.prompt_tokens_details
    found = details.chatserve
    assert details.cached_tokens == sum(found[name] for name in ("taken_over", "mapped", "copied", "promoted"))
    return found


async def test_an_answer_says_where_its_prompt_came_from(server: Running) -> None:
    first = why((await say(server, "one")).usage)
    assert (first["mapped"], first["stopped"]["at"], first["stopped"]["why"]) == (0, 0, "nothing_recorded")
    second = await say(server, "two")
    stopped = why(second.usage)["stopped"]
    assert (stopped["at"], stopped["why"]) == (second.usage.prompt_tokens_details.cached_tokens, "record_ends")
    assert (stopped["found"], stopped["asked"]["text"]) == (None, "<|im_end|>")


async def test_a_streamed_answer_says_it_in_its_last_chunk(server: Running) -> None:
    stream = await say(server, "one", stream=True, stream_options={"include_usage": True})
    usages = [chunk.usage async for chunk in stream if chunk.usage]
    assert [why(usage)["stopped"]["why"] for usage in usages] == ["nothing_recorded"]


async def test_completions_and_responses_say_it_too(server: Running) -> None:
    client = server.openai()
    completion = await client.completions.create(model=MODEL, prompt="one", extra_body={"reuse_prefix": False})
    assert why(completion.usage)["stopped"] == {"at": 0, "why": "reuse_off", "found": None, "asked": None}
    response = await client.responses.create(model=MODEL, input="one")
    assert response.usage.input_tokens_details.chatserve["stopped"]["why"] == "nothing_recorded"


@pytest.mark.parametrize("kind", ["conversations", "responses", "sessions"])
async def test_the_memory_of_a_conversation_can_be_seen_and_warmed(server: Running, kind: str) -> None:
    client, http = server.openai(), server.http()
    made = await client.conversations.create()
    answer = await client.responses.create(model=MODEL, input="one", conversation=made.id)
    await say(server, "one")
    names = {"conversations": made.id, "responses": answer.id, "sessions": "s"}
    one = f"/v1/{kind}/{names[kind]}"
    memory = (await http.get(f"{one}/memory")).raise_for_status().json()
    assert memory["tokens"] == memory["recorded_tokens"] == answer.usage.input_tokens + len(ANSWER)
    assert (memory["object"], memory["warm"], memory["stopped"]) == ("conversation.memory", False, None)
    assert memory["physical_bytes"] == memory["private_bytes"] + memory["shared_bytes"]
    assert sum(share["bytes"] for share in memory["mapped"]) == memory["physical_bytes"]
    for _ in range(2):
        warmed = (await http.post(f"{one}/warm")).raise_for_status().json()
        assert warmed == memory | {"warm": True}


async def test_what_is_not_recorded_is_computed_by_a_warm_up_at_the_lowest_priority(server: Running) -> None:
    await say(server, "one")
    server.engine.recorded.clear()
    http = server.http()
    memory = (await http.get("/v1/sessions/s/memory")).json()
    assert (memory["recorded_tokens"], memory["stopped"]["why"]) == (0, "nothing_recorded")
    await http.post("/v1/sessions/s/warm")
    request = server.engine.last.request
    assert (request.warms, request.priority) == (True, 101)
    assert request.label == server.engine.streams[0].request.label != ""
    assert server.engine.last.stopped
    assert len(request.prompt) == 4 * memory["tokens"]


async def test_a_client_that_leaves_ends_its_warm_up(server: Running) -> None:
    await say(server, "one")
    server.engine.recorded.clear()
    server.engine.prefill = 60
    warming = asyncio.create_task(server.http().post("/v1/sessions/s/warm"))
    await until(lambda: server.engine.last.request.warms)
    warming.cancel()
    await until(lambda: server.engine.last.stopped)


@pytest.mark.parametrize("path", ["conversations/conv_none", "conversations/none", "responses/resp_no", "sessions/no"])
async def test_what_is_not_there_has_no_memory(server: Running, path: str) -> None:
    http = server.http()
    assert (await http.get(f"/v1/{path}/memory")).status_code == 404
    assert (await http.post(f"/v1/{path}/warm")).status_code == 404


async def test_nobody_sees_the_memory_of_another_tenant(server: Running) -> None:
    await say(server, "one")
    assert (await server.http().get("/v1/sessions/s/memory?cache_salt=other")).status_code == 404


async def test_without_an_engine_memory_cannot_be_seen(server: Running) -> None:
    await say(server, "one")
    server.engine.alive = False
    http = server.http()
    for reply in (await http.get("/v1/sessions/s/memory"), await http.post("/v1/sessions/s/warm")):
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "not_ready")


async def test_a_template_that_rewrites_history_is_told_with_what_it_rewrote(
    engine: ScriptedEngine, tmp_path: Path
) -> None:
    """A04."""
    other = await open_parts(tmp_path / "other", bytes_tokenizer(TEMPLATE + "{{ messages | length }}"), engine)
    async with serving(other) as server:
        await say(server, "one")
        second = why((await say(server, "two")).usage)["stopped"]
    await other.store.close()
    at = "_user\none_\n_assistant\n"  # a control token for each dash
    assert (second["why"], second["found"]["text"], second["at"]) == ("template_rewrote_history", "1", len(at))


def explained(tokenizer: Tokenizer, stop: ReuseStop, prompt: str, history: str, *, shared: bool = False) -> Any:
    said = [array("i", tokenizer.encode(text)) for text in (prompt, history)]
    stopped = Explain(tokenizer, *said, shared=shared).reuse(Reuse(stop=stop)).stopped
    assert stopped is not None
    return stopped.why, stopped.found and stopped.found.text


def test_a_template_that_rewrote_history_is_named(tokenizer: Tokenizer) -> None:
    stop = ReuseStop(4, "differs", 1, tokenizer.encode("?")[0])
    assert explained(tokenizer, stop, "abcdXfgh", "abcdefg") == ("template_rewrote_history", "e")


def test_what_another_conversation_went_on_with_is_no_reason_for_this_one(tokenizer: Tokenizer) -> None:
    stop = ReuseStop(4, "differs", 1, tokenizer.encode("?")[0])
    assert explained(tokenizer, stop, "abcdefgh", "abcdefg") == ("nothing_recorded", None)
    assert explained(tokenizer, stop, "abcdefgh", "abcd") == ("differs", "?")


def test_where_prefixes_are_shared_nobody_sees_how_others_go_on(tokenizer: Tokenizer) -> None:
    stop = ReuseStop(4, "differs", 1, tokenizer.encode("?")[0])
    assert explained(tokenizer, stop, "abcdefgh", "abcd", shared=True) == ("differs", None)


def test_a_control_token_is_shown_by_its_name(tokenizer: Tokenizer) -> None:
    name, token = next(iter(tokenizer.encoder.controls.items()))
    assert explained(tokenizer, ReuseStop(1, "differs", 1, token), "ab", "") == ("differs", name)
