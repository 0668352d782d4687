"""What goes over the wire of a stream: frames, headers, pings, and readers that do not read."""

from __future__ import annotations

import asyncio
import json
import time

import psutil

from chatserve.server.limits import ServerLimits
from tests.server.conftest import ANSWER
from tests.server.running_server import MODEL, Parts, Running, serving
from tests.server.test_disconnects import HELLO, until
from tests.server.wire_client import WireClient

STREAM = HELLO | {"stream": True}


async def test_the_headers_tell_proxies_to_let_the_stream_through(server: Running) -> None:
    """A27"""
    client = await WireClient.connect(server.port)
    await client.post("/v1/chat/completions", STREAM, **{"Accept-Encoding": "gzip, br"})
    status, headers = await client.head()
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-cache"
    assert headers["x-accel-buffering"] == "no"
    assert "content-encoding" not in headers
    assert headers["x-request-id"]


async def test_pings_come_as_comments_from_the_start_of_prefill(parts: Parts) -> None:
    """A27, A28: comments only, and the official client does not mind them."""
    parts.limits = ServerLimits(ping_seconds=0.05)
    parts.engine.prefill = 0.3
    async with serving(parts) as server:
        client = await WireClient.connect(server.port)
        await client.post("/v1/chat/completions", STREAM)
        await client.head()
        events = await client.events()
        first_text = next(n for n, event in enumerate(events) if b'"content":"H"' in event)
        assert events[1:first_text].count(b": ping\n\n") >= 3
        stream = await server.openai().chat.completions.create(model=MODEL, **STREAM)
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == ANSWER


async def test_every_data_line_is_json_or_the_end_mark_and_every_event_ends_with_a_blank_line(server: Running) -> None:
    """A28: even where the answer holds every kind of line end."""
    text = 'a\r\n\r\nb\rc\n\n"d"\u2028\u0085data: [DONE]\n\nevent: x'
    server.engine.script = lambda _request: server.parts.tokenizer.encode(text)
    server.engine.pace = None
    client = await WireClient.connect(server.port)
    await client.post("/v1/chat/completions", STREAM | {"stream_options": {"include_usage": True}})
    await client.head()
    body = b"".join(await client.events())
    assert body.endswith(b"\n\n")
    events = body.split(b"\n\n")[:-1]
    assert all(event.startswith(b"data: ") and b"\n" not in event and b"\r" not in event for event in events)
    assert events[-1] == b"data: [DONE]"
    chunks = [json.loads(event.removeprefix(b"data: ")) for event in events[:-1]]
    assert "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]) == text


async def test_a_reader_that_stalls_costs_ids_only_and_gets_them_merged_when_it_reads_again(parts: Parts) -> None:
    """A26"""
    parts.engine.script = lambda _request: [65] * 4000
    parts.send_buffer = 4096
    async with serving(parts) as server:
        client = await WireClient.connect(server.port, receive_buffer=2048)
        await client.post("/v1/chat/completions", STREAM)
        await client.head()
        await until(lambda: server.engine.last.made == 4001, 10)
        assert server.parts.running
        events = await client.events()
        assert server.engine.last.largest_delta > 1000
        assert len(events) < 3000
        texts = [json.loads(event[6:])["choices"][0]["delta"].get("content", "") for event in events[:-1]]
        assert "".join(texts) == parts.tokenizer.decode([65] * 4000)
        assert events[-1] == b"data: [DONE]\n\n"


def long_stream(parts: Parts, send_seconds: float) -> None:
    """Events of a thousand characters, for as long as anybody reads."""
    parts.limits = ServerLimits(send_seconds=send_seconds)
    parts.send_buffer = 4096
    words = parts.tokenizer.encode("\u0001" * 3000)  # six bytes each in JSON
    parts.engine.script = lambda _request: words
    parts.engine.pace = 0.0


async def test_fifty_stalled_readers_hold_little_memory_and_nobody_else_up(parts: Parts) -> None:
    """A26"""
    long_stream(parts, send_seconds=60)
    async with serving(parts) as server:
        memory = psutil.Process().memory_info().rss
        stalled = [await WireClient.connect(server.port, receive_buffer=2048) for _ in range(50)]
        for client in stalled:
            await client.post("/v1/chat/completions", STREAM)
        await until(lambda: len(server.engine.streams) == 50, 5)
        await until(lambda: all(stream.made == 3001 for stream in server.engine.streams), 10)
        assert len(server.parts.running) == 50
        server.engine.script = lambda _request: parts.tokenizer.encode(ANSWER)
        began = time.perf_counter()
        reply = await server.openai().chat.completions.create(model=MODEL, **HELLO)
        assert reply.choices[0].message.content == ANSWER
        assert time.perf_counter() - began < 5
        assert psutil.Process().memory_info().rss - memory < 100 * 2**20
        for client in stalled:
            client.vanish()
        await until(lambda: not server.parts.running, 10)


async def test_a_reader_that_takes_nothing_is_let_go_and_its_turn_is_saved(parts: Parts) -> None:
    """A26: the rule is to cancel; what it was sent goes on being its conversation."""
    parts.limits = ServerLimits(send_seconds=0.3, ping_seconds=0.05)
    parts.send_buffer = 4096
    parts.engine.script = lambda _request: [1] * 4000
    async with serving(parts) as server:
        client = await WireClient.connect(server.port, receive_buffer=2048)
        await client.post("/v1/chat/completions", STREAM | {"session_id": "s"})
        await until(lambda: server.engine.streams and not server.parts.running, 10)
        kept = server.engine.last.kept
        assert kept is not None
        assert 0 < kept < 4000
        server.engine.script = lambda _request: parts.tokenizer.encode(ANSWER)
        await server.openai().chat.completions.create(model=MODEL, **HELLO, extra_body={"session_id": "s"})
        assert len(server.engine.prompt_ids()) == 21 + kept + 2 + 21
        client.vanish()


async def test_a_slow_reader_gets_all_of_it(parts: Parts) -> None:
    """A26: a byte at a time at first."""
    async with serving(parts) as server:
        client = await WireClient.connect(server.port, receive_buffer=2048)
        await client.post("/v1/chat/completions", STREAM)
        seen = bytearray()
        for _ in range(50):
            seen += await client.reader.read(1)
            await asyncio.sleep(0.005)
        while not seen.endswith(b"0\r\n\r\n"):
            seen += await client.reader.read(2000)
        assert b"data: [DONE]" in seen
