"""Chat completions through the official client, streamed and not."""

from __future__ import annotations

import asyncio

import pytest
from openai import NotFoundError, OpenAI

from tests.server.conftest import ANSWER
from tests.server.running_server import MODEL, Running

HELLO = [{"role": "user", "content": "Hi"}]
PROMPT = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
PROMPT_TOKENS = 1 + 5 + 2 + 1 + 1 + 1 + 10


async def test_an_answer_comes_whole_with_real_counts(server: Running) -> None:
    """A22"""
    reply = await server.openai().chat.completions.create(model=MODEL, messages=HELLO)
    assert reply.object == "chat.completion"
    assert reply.choices[0].message.content == ANSWER
    assert reply.choices[0].message.role == "assistant"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.usage.prompt_tokens == PROMPT_TOKENS
    assert reply.usage.completion_tokens == len(ANSWER) + 1
    assert reply.usage.total_tokens == PROMPT_TOKENS + len(ANSWER) + 1
    assert reply.usage.prompt_tokens_details.cached_tokens == 0


async def test_the_synchronous_client_works_too(server: Running) -> None:
    def ask() -> str:
        with OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
            whole = client.chat.completions.create(model=MODEL, messages=HELLO).choices[0].message.content
            stream = client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
            assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == whole
            return whole

    assert await asyncio.to_thread(ask) == ANSWER


async def test_a_stream_has_one_id_one_time_and_the_role_once(server: Running) -> None:
    """A22"""
    stream = await server.openai().chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    chunks = [chunk async for chunk in stream]
    assert {(chunk.id, chunk.created, chunk.object, chunk.model) for chunk in chunks} == {
        (chunks[0].id, chunks[0].created, "chat.completion.chunk", MODEL)
    }
    assert [chunk.choices[0].delta.role for chunk in chunks].count("assistant") == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == ["stop"]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == ANSWER


async def test_a_quick_reader_gets_one_event_a_token(server: Running) -> None:
    server.engine.pace = 0.002
    stream = await server.openai().chat.completions.create(model=MODEL, messages=HELLO, stream=True)
    texts = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices[0].delta.content]
    assert texts == list(ANSWER)


@pytest.mark.parametrize("asked", [True, False, None])
async def test_usage_comes_once_and_last_when_it_is_asked_for(server: Running, asked: bool | None) -> None:
    """A21"""
    whole = await server.openai().chat.completions.create(
        model=MODEL, messages=HELLO, extra_body={"reuse_prefix": False}
    )
    stream = await server.openai().chat.completions.create(
        model=MODEL,
        messages=HELLO,
        stream=True,
        stream_options=None if asked is None else {"include_usage": asked},
        extra_body={"reuse_prefix": False},
    )
    chunks = [chunk async for chunk in stream]
    with_usage = [chunk for chunk in chunks if chunk.usage]
    if asked:
        assert with_usage == chunks[-1:]
        assert chunks[-1].choices == []
        assert chunks[-1].usage == whole.usage
    else:
        assert with_usage == []
        assert all(chunk.choices for chunk in chunks)


@pytest.mark.parametrize(("ending", "counted"), [({"max_tokens": 5}, 5), ({"stop": ["there"]}, 11), ({}, 21)])
async def test_usage_counts_the_same_streamed_and_not_however_the_answer_ends(
    server: Running, ending: dict, counted: int
) -> None:
    """A21"""
    ask = {"model": MODEL, "messages": HELLO, "extra_body": {"reuse_prefix": False}} | ending
    whole = await server.openai().chat.completions.create(**ask)
    stream = await server.openai().chat.completions.create(**ask, stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    assert whole.usage.completion_tokens == counted
    assert chunks[-1].usage == whole.usage
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason


async def test_the_token_limit_ends_an_answer_with_length(server: Running) -> None:
    """A22"""
    reply = await server.openai().chat.completions.create(model=MODEL, messages=HELLO, max_tokens=1)
    assert reply.choices[0].finish_reason == "length"
    assert reply.choices[0].message.content == ANSWER[:1]
    assert reply.usage.completion_tokens == 1


async def test_another_models_name_is_not_found(server: Running) -> None:
    with pytest.raises(NotFoundError) as error:
        await server.openai().chat.completions.create(model="gpt-none", messages=HELLO)
    assert error.value.body["code"] == "model_not_found"
    assert error.value.body["param"] == "model"


async def test_the_model_is_listed_and_found_by_a_name_with_a_slash(server: Running) -> None:
    models = [model async for model in server.openai().models.list()]
    assert [model.id for model in models] == [MODEL]
    assert (await server.openai().models.retrieve(MODEL)).id == MODEL
