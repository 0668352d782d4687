"""Prompt and answer have one limit together; what cannot fit is refused at once, what is too much is cut."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.server.conftest import ANSWER, MAX_TOKENS
from tests.server.scripted import ScriptedEngine

TEMPLATE_TOKENS = 19  # of a first turn with one user message, beside its text


async def ask(api: httpx.AsyncClient, length: int = 2, **fields: Any) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "x" * length}], **fields}
    return await api.post("/v1/chat/completions", json=body)


@pytest.mark.parametrize("given", [{}, {"max_tokens": None}, {"max_completion_tokens": None}])
async def test_without_a_limit_an_answer_may_fill_the_context(
    api: httpx.AsyncClient, engine: ScriptedEngine, given: dict[str, Any]
) -> None:
    """A20"""
    assert (await ask(api, **given)).status_code == 200
    assert engine.last.request.params.max_tokens == MAX_TOKENS - TEMPLATE_TOKENS - 2


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("asked", [MAX_TOKENS, MAX_TOKENS + 1, 2**31, 2**63, 10**30])
async def test_a_limit_beyond_the_context_is_cut_to_what_is_left(
    api: httpx.AsyncClient, engine: ScriptedEngine, field: str, asked: int
) -> None:
    """A20"""
    engine.script = lambda _request: [40] * MAX_TOKENS
    reply = (await ask(api, MAX_TOKENS - TEMPLATE_TOKENS - 7, **{field: asked})).json()
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 7
    assert reply["usage"]["total_tokens"] == MAX_TOKENS


@pytest.mark.parametrize("asked", [1, 3])
async def test_a_limit_inside_the_context_is_kept(api: httpx.AsyncClient, asked: int) -> None:
    """A20"""
    reply = (await ask(api, max_tokens=asked)).json()
    assert reply["choices"][0]["message"]["content"] == ANSWER[:asked]


async def test_the_newer_name_of_the_limit_wins(api: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    await ask(api, max_tokens=5, max_completion_tokens=3)
    assert engine.last.request.params.max_tokens == 3


@pytest.mark.parametrize("over", [0, 1, 100])
async def test_a_prompt_that_leaves_no_room_is_refused_with_the_limit(
    api: httpx.AsyncClient, engine: ScriptedEngine, over: int
) -> None:
    """A08, A20: those behind it are answered."""
    error = (await ask(api, MAX_TOKENS - TEMPLATE_TOKENS + over)).json()["error"]
    assert error["code"] == "context_length_exceeded"
    assert str(MAX_TOKENS) in error["message"]
    assert str(MAX_TOKENS + over) in error["message"]
    assert engine.streams == []
    assert (await ask(api)).status_code == 200
    assert (await ask(api, MAX_TOKENS - TEMPLATE_TOKENS - 1)).json()["usage"]["completion_tokens"] == 1


async def test_token_ids_that_leave_no_room_are_refused_with_the_limit(api: httpx.AsyncClient) -> None:
    """A08"""
    response = await api.post("/v1/completions", json={"prompt": [40] * MAX_TOKENS})
    assert response.json()["error"]["code"] == "context_length_exceeded"
    assert response.json()["error"]["param"] == "prompt"


async def test_what_the_engine_refuses_is_a_400_with_the_engines_reason(
    api: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    """A08: the KV pool is smaller than the context."""
    engine.refusal = "The request needs 300 tokens of KV memory; 256 can ever be had."
    response = await ask(api)
    assert response.status_code == 400
    assert response.json()["error"]["message"] == engine.refusal
    engine.refusal = None
    assert (await ask(api)).status_code == 200
