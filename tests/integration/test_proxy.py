"""Behind a proxy that buffers and compresses whatever it is allowed to."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from openai import AsyncOpenAI

from tests.integration.recital import Recital
from tests.integration.serving import Serving

pytestmark = pytest.mark.model

PING_SECONDS = 15.0


@dataclass
class Proxy:
    """Passes a response on only when it is complete, unless its headers forbid that; notes what came when.

    arrived: bytes of the body, each with the seconds since the request.
    """

    backend: int
    port: int = 0
    head: dict[str, str] = field(default_factory=dict)
    arrived: list[tuple[float, bytes]] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        lines = request.decode().split("\r\n")
        length = next(int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length"))
        kept = [line for line in lines[:-2] if not line.lower().startswith(("accept-encoding", "connection"))]
        asked = "\r\n".join([*kept, "Accept-Encoding: gzip", "Connection: close", "", ""])
        upstream, out = await asyncio.open_connection("127.0.0.1", self.backend)
        out.write(asked.encode() + await reader.readexactly(length))
        began = time.monotonic()
        head = await upstream.readuntil(b"\r\n\r\n")
        self.head = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
        buffering = self.head.get("x-accel-buffering") != "no"
        writer.write(head)
        while piece := await upstream.read(65536):
            self.arrived.append((time.monotonic() - began, piece))
            writer.write(piece)
            if not buffering:
                await writer.drain()
        writer.close()
        out.close()


@asynccontextmanager
async def proxied(backend: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(backend)
    async with await asyncio.start_server(proxy.handle, "127.0.0.1", 0) as listening:
        proxy.port = listening.sockets[0].getsockname()[1]
        yield proxy


async def test_a_stream_passes_uncompressed_and_piece_by_piece_and_a_long_silence_is_filled_with_comments(
    reciting: Serving, recital: Recital
) -> None:
    """A27, A28: the official client behind the proxy; an engine that for a while computes and says nothing."""
    engine = reciting.engine_pid()
    async with proxied(reciting.port) as proxy:
        client = AsyncOpenAI(base_url=f"http://127.0.0.1:{proxy.port}/v1", api_key="none", max_retries=0, timeout=40)
        os.kill(engine, signal.SIGSTOP)
        try:
            stream = await client.chat.completions.create(
                model="whichever is served",
                messages=[{"role": "user", "content": "Recite."}],
                max_tokens=80,
                temperature=0,
                stream=True,
                extra_body={"model": None},
            )
            async with asyncio.timeout(PING_SECONDS + 3):
                while not any(b": ping" in piece for _, piece in proxy.arrived):
                    await asyncio.sleep(0.05)
        finally:
            os.kill(engine, signal.SIGCONT)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        await client.close()
    assert proxy.head["content-type"].startswith("text/event-stream")
    assert (proxy.head["cache-control"], proxy.head["x-accel-buffering"]) == ("no-cache", "no")
    assert "content-encoding" not in proxy.head
    assert "content-length" not in proxy.head
    pinged = [at for at, piece in proxy.arrived if b": ping" in piece]
    spoken = [at for at, piece in proxy.arrived if b'"content":"' in piece and b'"content":""' not in piece]
    assert PING_SECONDS - 5 < pinged[0] < min(spoken)
    assert len(spoken) > 10, "piece by piece"
    assert text.startswith(recital.text(recital.asked("Recite."), 10).rstrip("\ufffd"))
