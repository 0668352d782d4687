"""Coming and going: the port first, a stop that finishes what it can, a bounded end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time

import httpx
import pytest

from chatserve.server.binding import CannotBind, bind, bind_several
from chatserve.server.serve import DrainLimits, serve
from tests.server.conftest import ANSWER
from tests.server.running_server import MODEL, Parts, serving
from tests.server.test_disconnects import HELLO, until
from tests.server.wire_client import WireClient

STREAM = HELLO | {"stream": True}


async def streams(port: int, many: int, **more: object) -> list[WireClient]:
    clients = [await WireClient.connect(port) for _ in range(many)]
    for client in clients:
        await client.post("/v1/chat/completions", STREAM | more)
        await client.head()
    return clients


async def test_a_signal_lets_running_streams_finish_and_refuses_new_work(parts: Parts) -> None:
    """A48"""
    parts.engine.pace = 0.03
    parts.engine.places = asyncio.Semaphore(5)
    async with serving(parts) as server:
        clients = await streams(server.port, 5)
        clients += await streams(server.port, 3)  # queued in the engine
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        refused = await server.http().post("/v1/chat/completions", json=HELLO)
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "draining"
        assert (await server.http().get("/ready")).status_code == 503
        assert (await server.http().get("/health")).status_code == 200
        for client in clients:
            assert (await client.events())[-1] == b"data: [DONE]\n\n"
        async with asyncio.timeout(3):
            await server.task
    assert parts.engine.closed


async def test_streams_past_the_limit_end_with_an_error_event_and_are_saved(parts: Parts) -> None:
    """A48: five live, three queued, one whose reader has stalled."""
    parts.drain = DrainLimits(running=0.3, ending=1, engine=1)
    parts.send_buffer = 4096
    async with serving(parts) as server:
        parts.engine.script = lambda _request: [65] * 3000
        parts.engine.pace = None
        stalled = await WireClient.connect(server.port, receive_buffer=2048)
        await stalled.post("/v1/chat/completions", STREAM)
        await until(lambda: parts.engine.streams and parts.engine.last.made == 3001, 5)
        parts.engine.script = lambda _request: parts.tokenizer.encode(ANSWER)
        parts.engine.pace = 0.1
        parts.engine.places = asyncio.Semaphore(5)
        clients = await streams(server.port, 1, session_id="s")
        clients += await streams(server.port, 7)
        began = time.perf_counter()
        server.signals.note()
        for client in clients:
            events = await client.events()
            assert b'"code":"draining"' in events[-1]
            assert not any(b"[DONE]" in event for event in events)
        await server.task
        assert time.perf_counter() - began < 0.3 + 1 + 1 + 2
        stalled.vanish()
    assert parts.engine.closed
    assert all(stream.stopped for stream in parts.engine.streams)
    chain = await parts.store.chain((await parts.store.session("", "s")).leaf)
    assert chain[0].status == "cancelled"
    assert chain[0].answer
    assert ANSWER.startswith(chain[0].answer)


async def test_a_second_signal_ends_at_once(parts: Parts) -> None:
    """A48"""
    parts.drain = DrainLimits(running=60, ending=2, engine=60)
    parts.engine.pace = 1
    async with serving(parts) as server:
        clients = await streams(server.port, 3)
        server.signals.note()
        await asyncio.sleep(0.05)
        began = time.perf_counter()
        server.signals.note()
        await server.task
        assert time.perf_counter() - began < 1.5
        for client in clients:
            assert b'"code":"draining"' in (await client.events())[-1]


async def test_a_second_signal_does_not_wait_for_a_stalled_reader(parts: Parts) -> None:
    """A48"""
    parts.drain = DrainLimits(running=60, ending=30, engine=60)
    parts.send_buffer = 4096
    parts.engine.script = lambda _request: [65] * 3000
    async with serving(parts) as server:
        stalled = await WireClient.connect(server.port, receive_buffer=2048)
        await stalled.post("/v1/chat/completions", STREAM)
        await until(lambda: parts.engine.streams and parts.engine.last.made == 3001, 5)
        began = time.perf_counter()
        server.signals.note()
        server.signals.note()
        await server.task
        assert time.perf_counter() - began < 3
        assert parts.engine.last.stopped
        stalled.vanish()


async def test_a_signal_while_the_model_loads_leaves_at_once(parts: Parts) -> None:
    parts.engine.start_gate.clear()
    async with serving(parts) as server:
        server.signals.note()
        async with asyncio.timeout(2):
            await server.task
    assert parts.engine.closed


async def test_an_engine_that_cannot_start_ends_the_server_with_its_reason(parts: Parts) -> None:
    async def fail() -> None:
        raise MemoryError("no room for the model")

    parts.engine.start = fail
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    with pytest.raises(MemoryError, match="no room"):
        await serve(parts.app(), listening, engine=parts.engine, running=parts.running, limits=parts.drain)
    bind("127.0.0.1", port).close()


async def test_a_server_answers_while_its_model_loads(parts: Parts) -> None:
    info, parts.engine.info = parts.engine.info, None
    parts.engine.start_gate.clear()
    async with serving(parts) as server:
        client = server.http()
        assert (await client.get("/health")).status_code == 200
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()["error"]["code"]) == (503, "loading")
        assert (await client.post("/v1/chat/completions", json=HELLO)).status_code == 503
        assert (await client.get("/v1/models")).status_code == 503
        parts.engine.info = info
        parts.engine.start_gate.set()
        assert (await client.get("/ready")).status_code == 200
        assert (await server.openai().chat.completions.create(model=MODEL, **HELLO)).choices


async def test_a_taken_port_is_known_at_once_and_named() -> None:
    """A47: nothing slow was begun."""
    listening = bind("127.0.0.1", 0)
    port = listening.getsockname()[1]
    began = time.perf_counter()
    with pytest.raises(CannotBind, match=f"Port {port} of 127.0.0.1 is taken"):
        bind("127.0.0.1", port)
    assert time.perf_counter() - began < 1
    listening.close()
    bind("127.0.0.1", port).close()


async def test_several_sockets_share_a_port_evenly_and_let_nobody_else_in() -> None:
    sockets = bind_several("127.0.0.1", 0, 3)
    port = sockets[0].getsockname()[1]
    for count in (1, 3):
        with pytest.raises(CannotBind, match=f"Port {port} of 127.0.0.1 is taken"):
            bind_several("127.0.0.1", port, count)
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(120)]
    accepted = [0, 0, 0]
    for number, listening in enumerate(sockets):
        with contextlib.suppress(BlockingIOError):
            while True:
                listening.accept()[0].close()
                accepted[number] += 1
    assert sum(accepted) == 120
    assert min(accepted) > 10
    for each in (*sockets, *clients):
        each.close()


async def test_a_port_that_another_program_has_is_not_shared() -> None:
    other = bind("127.0.0.1", 0)
    with pytest.raises(CannotBind, match="is taken by another program"):
        bind_several("127.0.0.1", other.getsockname()[1], 2)
    other.close()


async def test_a_port_is_free_again_right_after_a_server_with_open_connections(parts: Parts) -> None:
    """A47: restart at once."""
    async with serving(parts) as server:
        client = httpx.AsyncClient(base_url=server.url)
        await client.get("/health")
        port = server.port
    bind("127.0.0.1", port).close()
    await client.aclose()


@pytest.mark.parametrize(("host", "port"), [("no such host", 80), ("127.0.0.1", 10**6), ("203.0.113.1", 0)])
async def test_an_address_that_is_none_is_named(host: str, port: int) -> None:
    with pytest.raises(CannotBind, match=f"{host}:{port}"):
        bind(host, port)
