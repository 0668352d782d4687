"""Clients that leave: nothing runs on for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.server.conftest import ANSWER
from tests.server.running_server import Parts, Running, serving
from tests.server.wire_client import WireClient

HELLO = {"messages": [{"role": "user", "content": "Hi"}]}


async def until(condition: Callable[[], Any], seconds: float = 1.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_stream_is_stopped_when_its_client_leaves_after_the_first_token(server: Running) -> None:
    """A24"""
    server.engine.pace = 0.05
    client = await WireClient.connect(server.port)
    await client.post("/v1/chat/completions", HELLO | {"stream": True})
    await client.head()
    await client.chunk()  # the role
    await client.chunk()
    client.close()
    await until(lambda: server.engine.last.stopped)
    assert server.engine.running == set()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("leave", [WireClient.close, WireClient.vanish])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_a_client_that_leaves_during_prefill_is_noticed_within_a_second(
    server: Running, stream: bool, leave: Callable[[WireClient], None], path: str
) -> None:
    """A24, A25: with the middleware that every server has."""
    server.engine.prefill = 60
    client = await WireClient.connect(server.port)
    await client.post(path, HELLO | {"stream": stream, "prompt": "Hi"})
    await until(lambda: server.engine.streams)
    leave(client)
    await until(lambda: server.engine.last.stopped)


async def test_a_queued_request_leaves_the_queue_with_its_client(server: Running) -> None:
    """A24"""
    server.engine.places = asyncio.Semaphore(1)
    server.engine.prefill = 60
    clients = [await WireClient.connect(server.port) for _ in range(3)]
    for client in clients:
        await client.post("/v1/chat/completions", HELLO | {"stream": True})
    await until(lambda: len(server.engine.streams) == 3)
    for client in clients:
        client.close()
    await until(lambda: all(stream.stopped for stream in server.engine.streams))
    server.engine.prefill = 0
    reply = await server.openai().chat.completions.create(model="scripted/model", **HELLO)
    assert reply.choices[0].message.content == ANSWER


async def test_a_client_that_leaves_while_it_waits_for_its_sessions_turn_asks_nothing(server: Running) -> None:
    """A24"""
    server.engine.prefill = 60
    first, second = await WireClient.connect(server.port), await WireClient.connect(server.port)
    await first.post("/v1/chat/completions", HELLO | {"session_id": "s"})
    await until(lambda: server.engine.streams)
    await second.post("/v1/chat/completions", HELLO | {"session_id": "s"})
    await asyncio.sleep(0.05)
    second.close()
    await asyncio.sleep(0.05)
    server.engine.prefill = 0
    first.close()
    await until(lambda: not server.parts.running)
    await server.openai().chat.completions.create(model="scripted/model", extra_body={"session_id": "s"}, **HELLO)
    assert len(server.engine.streams) == 2


async def test_what_the_client_saw_is_what_its_session_goes_on_with(server: Running) -> None:
    server.engine.pace = 0.02
    client = await WireClient.connect(server.port)
    await client.post("/v1/chat/completions", HELLO | {"stream": True, "session_id": "s"})
    await client.head()
    seen = b"".join([await client.chunk() for _ in range(6)])
    client.close()
    await until(lambda: server.engine.last.stopped)
    kept = server.engine.last.kept
    assert kept is not None
    assert 5 <= kept < len(ANSWER)
    assert ANSWER[4].encode() in seen
    await server.openai().chat.completions.create(
        model="scripted/model", messages=[{"role": "user", "content": "more"}], extra_body={"session_id": "s"}
    )
    prompt = server.parts.tokenizer.decode(server.engine.prompt_ids())
    assert prompt == f"user\nHi\nassistant\n{ANSWER[:kept]}\nuser\nmore\nassistant\n"


@pytest.mark.parametrize("stream", [True, False])
async def test_a_turn_of_which_nothing_was_seen_leaves_no_trace(server: Running, stream: bool) -> None:
    server.engine.prefill = 60 if stream else 0
    server.engine.pace = 0.05
    client = await WireClient.connect(server.port)
    await client.post("/v1/chat/completions", HELLO | {"stream": stream, "session_id": "s"})
    await until(lambda: server.engine.streams)
    await asyncio.sleep(0.15)
    client.close()
    await until(lambda: server.engine.last.stopped)
    server.engine.prefill, server.engine.pace = 0, 0
    await server.openai().chat.completions.create(
        model="scripted/model", messages=[{"role": "user", "content": "again"}], extra_body={"session_id": "s"}
    )
    assert server.parts.tokenizer.decode(server.engine.prompt_ids()) == "user\nagain\nassistant\n"


async def test_fifty_clients_that_vanish_leave_nothing_behind(server: Running) -> None:
    """A24: nothing is left behind, disconnect by disconnect."""
    server.engine.pace = 0.02
    clients = [await WireClient.connect(server.port) for _ in range(50)]
    for client in clients:
        await client.post("/v1/chat/completions", HELLO | {"stream": True})
    await until(lambda: len(server.engine.streams) == 50, 5)
    before = len(asyncio.all_tasks())
    for client in clients:
        client.vanish()
    await until(lambda: not server.engine.running and not server.parts.running, 5)
    await until(lambda: len(asyncio.all_tasks()) < before - 100, 5)


async def test_a_client_that_leaves_in_the_middle_of_its_body_starts_nothing(parts: Parts) -> None:
    async with serving(parts) as server:
        client = await WireClient.connect(server.port)
        await client.send(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b'Content-Length: 1000\r\n\r\n{"messages": ['
        )
        await asyncio.sleep(0.05)
        client.close()
        assert (await server.http().get("/health")).status_code == 200
        assert server.engine.streams == []
