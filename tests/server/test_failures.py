"""Engines that die and stores that fail: everyone is told, in the API's shape, and can go on."""

from __future__ import annotations

import json

import pytest
from openai import APIError, InternalServerError

from sessions.store import StoreUnavailable
from tests.server.conftest import ANSWER
from tests.server.running_server import MODEL, Running
from tests.server.scripted import ScriptedEngine
from tests.server.test_disconnects import HELLO, until
from tests.server.wire_client import WireClient

STREAM = HELLO | {"stream": True}


async def test_an_engine_that_dies_ends_a_stream_with_one_error_event_and_no_end_mark(server: Running) -> None:
    """A28"""
    server.engine.pace = 0.02
    client = await WireClient.connect(server.port)
    await client.post("/v1/chat/completions", STREAM)
    await client.head()
    await client.chunk()
    await client.chunk()
    server.engine.die()
    events = await client.events()
    assert not any(b"[DONE]" in event for event in events)
    assert [b'"error"' in event for event in events].count(True) == 1
    error = json.loads(events[-1].removeprefix(b"data: "))["error"]
    assert error["code"] == "engine_died"
    assert set(error) == {"message", "type", "param", "code"}


async def test_the_official_client_raises_on_the_error_event(server: Running) -> None:
    """A28"""
    server.engine.pace = 0.02
    stream = await server.openai().chat.completions.create(model=MODEL, **STREAM)
    await anext(stream)
    server.engine.die()
    with pytest.raises(APIError, match="being restarted"):
        assert [chunk async for chunk in stream]


async def test_an_engine_that_dies_answers_a_waiting_call_with_503(server: Running) -> None:
    server.engine.prefill = 60
    client = await WireClient.connect(server.port)
    await client.post("/v1/chat/completions", HELLO)
    await until(lambda: server.engine.streams)
    server.engine.die()
    status, headers = await client.head()
    assert status == 503
    assert (await client.json(headers))["error"]["code"] == "engine_died"


async def test_a_conversation_goes_on_with_what_was_seen_once_the_engine_is_back(server: Running) -> None:
    server.engine.pace = 0.02
    client = await WireClient.connect(server.port)
    await client.post("/v1/chat/completions", STREAM | {"session_id": "s"})
    await client.head()
    for _ in range(4):
        await client.chunk()
    server.engine.die()
    await client.events()
    refused = await server.http().post("/v1/chat/completions", json=HELLO)
    assert refused.status_code == 503
    assert refused.headers["retry-after"]
    server.engine.alive = True
    await server.openai().chat.completions.create(model=MODEL, **HELLO, extra_body={"session_id": "s"})
    assert server.parts.tokenizer.decode(server.engine.prompt_ids()).startswith(f"user\nHi\nassistant\n{ANSWER[:3]}")


@pytest.mark.parametrize(("finish", "status"), [("refusal", 400)])
async def test_a_refusal_after_the_headers_is_an_error_event(server: Running, finish: str, status: int) -> None:
    """A08, A28"""
    setattr(server.engine, finish, "It can never fit: 300 of 256 tokens.")
    client = await WireClient.connect(server.port)
    await client.post("/v1/chat/completions", STREAM)
    assert (await client.head())[0] == 200
    events = await client.events()
    assert b"can never fit" in events[-1]
    assert (await server.http().post("/v1/chat/completions", json=HELLO)).status_code == status


async def test_an_answer_that_cannot_be_saved_says_so(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_args: object) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(server.parts.store, "add", fail)
    with pytest.raises(InternalServerError, match="could not be saved"):
        await server.openai().chat.completions.create(model=MODEL, **HELLO)
    stream = await server.openai().chat.completions.create(model=MODEL, **STREAM)
    with pytest.raises(APIError, match="could not be saved"):
        assert [chunk async for chunk in stream]


async def test_a_store_that_cannot_be_read_is_a_503_and_asks_nothing(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_args: object) -> None:
        raise StoreUnavailable("locked")

    monkeypatch.setattr(server.parts.store, "opened", fail)
    response = await server.http().post("/v1/chat/completions", json=HELLO | {"session_id": "s"})
    assert response.status_code == 503
    assert server.engine.streams == []


async def test_what_nobody_foresaw_is_a_500_that_tells_nothing(api, engine: ScriptedEngine) -> None:
    def broken(_request: object) -> None:
        raise RuntimeError("the user's words")

    engine.submit = broken
    response = await api.post("/v1/chat/completions", json=HELLO)
    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal_error"
    assert "words" not in response.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/chat/completions", 405),
        ("POST", "/health", 405),
        ("POST", "/v1/chat/completions/", 404),
        ("GET", "/v1/models/other", 404),
    ],
)
async def test_routes_that_are_not_there_answer_in_the_apis_shape(api, method: str, path: str, status: int) -> None:
    response = await api.request(method, path)
    assert response.status_code == status
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
