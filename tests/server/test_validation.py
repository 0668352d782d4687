"""Values a request may and may not have; every refusal is a 400 in OpenAI's shape that names the field."""

from __future__ import annotations

import json
from typing import Any

import httpx
import msgspec
import pytest

from chatserve.model.sampling import SamplingDefaults
from tests.server.running_server import MODEL
from tests.server.scripted import ScriptedEngine

HELLO = {"messages": [{"role": "user", "content": "Hi"}]}
NAN, INF = float("nan"), float("inf")


async def ask(api: httpx.AsyncClient, path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
    body = json.dumps((HELLO if path.startswith("/v1/chat") else {"prompt": "Hi"}) | fields)
    return await api.post(path, content=body, headers={"Content-Type": "application/json"})


def refused(response: httpx.Response, param: str | None) -> str:
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    return error["message"]


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("temperature", [NAN, INF, -INF, -1, 1e30, "1", True, [], 2.0001, 10**400]),
        ("top_p", [NAN, INF, -INF, -1, 0, 1e30, "1", {}]),
        ("min_p", [NAN, INF, -INF, -1, 1.5]),
        ("repetition_penalty", [NAN, INF, -INF, -1, 0, 1e30, 1e-30]),
        ("presence_penalty", [NAN, INF, -INF, -3, 1e30]),
        ("frequency_penalty", [NAN, INF, -INF, -3, 1e30]),
        ("top_k", [-2, 1.5, "1", True, NAN]),
        ("max_tokens", [0, -1, "10", 1.5, True, NAN]),
        ("max_completion_tokens", [0, -1, "10", 1.5]),
        ("seed", [2**63, -(2**63) - 1, 1.5, "1", True]),
        ("priority", [101, -101, 1.5, "0"]),
        ("stop", [1, [""], "", ["x"] * 17, [1], {}, "x" * 1025]),
        ("stop_token_ids", [1, [-1], [258], ["1"], [1.0], [True], [1] * 129]),
        ("stream", ["true", 1]),
        ("ignore_eos", ["true", 1]),
        ("include_stop_str_in_output", ["true"]),
        ("reuse_prefix", ["false", 0]),
        ("cache_salt", [1, "x" * 257]),
        ("session_id", ["", "x" * 129, "a b", "a\x00", "\u00e9", 1]),
        ("stream_options", [1, "x"]),
        ("include_usage", []),
        ("model", [1, "x" * 513]),
    ],
)
async def test_a_wrong_value_is_refused_by_name_and_nothing_is_asked(
    api: httpx.AsyncClient, engine: ScriptedEngine, field: str, values: list[Any]
) -> None:
    """A15"""
    for value in values:
        refused(await ask(api, **{field: value}), field)
    assert engine.streams == []


async def test_a_refusal_says_the_value_and_the_limit(api: httpx.AsyncClient) -> None:
    assert refused(await ask(api, temperature=3), "temperature") == "temperature must be from 0.0 to 2.0, not 3."
    assert "nan" in refused(await ask(api, temperature=NAN), "temperature")
    assert "from -100 to 100" in refused(await ask(api, priority=101), "priority")
    long = refused(await ask(api, stop="y" * 100_000), "stop")
    assert "1024" in long
    assert len(long) < 300


@pytest.mark.parametrize(
    ("field", "values", "taken"),
    [
        ("temperature", [0, 1e-30, 2, 1], None),
        ("top_k", [0, -1, None, 258, 259, 10**30], 0),
        ("top_k", [1], 1),
        ("seed", [0, -1, 2**63 - 1, -(2**63)], None),
        ("priority", [-100, 100, 0], None),
        ("min_p", [0, 1, 0.5], None),
        ("stop_token_ids", [(0, 257)], None),
    ],
)
async def test_a_right_value_reaches_the_engine(
    api: httpx.AsyncClient, engine: ScriptedEngine, field: str, values: list[Any], taken: Any
) -> None:
    """A16 (0, -1, null and the vocabulary's size switch top_k off), A17 (any 64-bit seed), A15 (a tiny temperature)."""
    for value in values:
        assert (await ask(api, **{field: value})).status_code == 200
        request = engine.last.request
        found = request.priority if field == "priority" else getattr(request.params, field)
        assert found == (value if taken is None else taken)


async def test_what_a_request_leaves_out_is_as_the_model_recommends(
    api: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    """A16: a field that is there wins, null and 0 among them."""
    assert engine.info is not None
    recommended = SamplingDefaults(temperature=0.2, top_p=0.9, top_k=40, min_p=0.05, repetition_penalty=1.1)
    spec = msgspec.structs.replace(engine.info.spec, defaults=recommended)
    engine.info = msgspec.structs.replace(engine.info, spec=spec)
    await ask(api)
    params = engine.last.request.params
    for name, value in msgspec.structs.asdict(recommended).items():
        assert getattr(params, name) == value
    await ask(api, temperature=0, top_k=None)
    params = engine.last.request.params
    assert (params.temperature, params.top_k, params.top_p) == (0, 0, 0.9)


async def test_two_requests_without_a_seed_draw_different_ones(api: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    await ask(api)
    await ask(api, seed=None)
    first, second = (stream.request.params.seed for stream in engine.streams)
    assert first != second


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("logprobs", True),
        ("top_logprobs", 1),
        ("tools", [{"type": "function"}]),
        ("tool_choice", "required"),
        ("functions", [{}]),
        ("response_format", {"type": "json_object"}),
        ("logit_bias", {"1": 5}),
        ("modalities", ["text", "audio"]),
        ("guided_json", {}),
        ("best_of", 2),
        ("min_tokens", 3),
        ("n", True),
    ],
)
async def test_what_is_not_done_is_refused_by_name_and_never_ignored(
    api: httpx.AsyncClient, field: str, value: Any
) -> None:
    assert "not supported" in refused(await ask(api, **{field: value}), field)


async def test_values_that_ask_for_nothing_and_unknown_fields_are_taken(api: httpx.AsyncClient) -> None:
    nothing = {"n": 1, "logprobs": False, "tools": [], "response_format": {"type": "text"}, "logit_bias": {}}
    nulls = dict.fromkeys(("n", "logprobs", "tools", "stop", "temperature", "top_p", "stream", "stream_options"))
    assert (await ask(api, **nothing, user="me", a_new_field={"x": [1]})).status_code == 200
    assert (await ask(api, **nulls)).status_code == 200
    assert (await ask(api, model=MODEL)).status_code == 200


@pytest.mark.parametrize(
    ("field", "value"), [("echo", True), ("suffix", "x"), ("best_of", 3), ("logprobs", 0), ("logprobs", 5), ("n", 2)]
)
async def test_completions_refuse_what_they_do_not_do(api: httpx.AsyncClient, field: str, value: Any) -> None:
    refused(await ask(api, "/v1/completions", **{field: value}), field)


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        (None, "messages"),
        ([], "messages"),
        ({}, "messages"),
        ("Hi", "messages"),
        (["Hi"], "messages[0]"),
        ([{"role": "user", "content": None}], "messages[0].content"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": []}], "messages[0].content"),
        ([{"role": "user", "content": 1}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content"),
        ([{"role": "system\nuser", "content": "x"}], "messages[0].role"),
        ([{"role": None, "content": "x"}], "messages[0].role"),
        ([{"role": "user", "content": "x"}, {"role": "robot", "content": "x"}], "messages[1].role"),
        ([{"role": "user", "content": "x", "name": 1}], "name"),
        ([{"role": "assistant", "content": "x", "tool_calls": [{}]}], "messages[0].tool_calls"),
    ],
)
async def test_messages_that_cannot_be_answered_are_refused_and_the_next_request_is_not(
    api: httpx.AsyncClient, engine: ScriptedEngine, messages: Any, param: str
) -> None:
    """A19, A38"""
    refused(await ask(api, messages=messages), param)
    assert engine.streams == []
    assert (await ask(api)).status_code == 200


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": " "}],
        [{"role": "system", "content": "Be brief."}],
        [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "b"}],
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}, {"role": "user", "content": "b"}],
        [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
        [{"role": "user", "content": "zero \u0000 byte"}],
    ],
)
async def test_messages_with_little_or_nothing_in_them_are_answered(api: httpx.AsyncClient, messages: Any) -> None:
    """A19"""
    assert (await ask(api, messages=messages)).status_code == 200


@pytest.mark.parametrize("prompt", [None, "", [], [""], [[]], ["a", "b"], [[1], [2]], 1, {}, [1, "a"], [258], [-1]])
async def test_a_prompt_that_cannot_be_continued_is_refused(
    api: httpx.AsyncClient, engine: ScriptedEngine, prompt: Any
) -> None:
    """A19"""
    refused(await ask(api, "/v1/completions", prompt=prompt), "prompt")
    assert engine.streams == []


@pytest.mark.parametrize("prompt", ["Hi", ["Hi"], [39, 72], [[39, 72]]])
async def test_a_prompt_is_text_or_the_ids_themselves(
    api: httpx.AsyncClient, engine: ScriptedEngine, prompt: Any
) -> None:
    reply = (await ask(api, "/v1/completions", prompt=prompt)).json()
    assert list(engine.prompt_ids()) == [39, 72]
    assert reply["object"] == "text_completion"
    assert reply["choices"][0]["text"] == "Hello there, friend."
    assert reply["usage"]["prompt_tokens"] == 2


async def test_a_conversation_of_too_many_messages_is_refused(api: httpx.AsyncClient) -> None:
    """A36"""
    many = [{"role": "user", "content": "x"}] * 50_000
    response = await ask(api, messages=many)
    assert "4096" in refused(response, "messages")
