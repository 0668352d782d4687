"""A server that is told to leave: what runs may finish, what cannot is told and saved, and it is gone in time."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.recital import Recital
from tests.integration.serving import CHAT, WIDE, Serving, gone, serving, told_by, until
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.model

QUESTION, NEXT = "Recite without an end.", "Go on."
ENDLESS = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "ignore_eos": True, "stream": True}


async def opened(server: Serving, count: int, **fields: Any) -> list[WireClient]:
    clients = [await WireClient.connect(server.port) for _ in range(count)]
    for number, client in enumerate(clients):
        await client.post(CHAT, ENDLESS | {"session_id": f"{fields.get('max_tokens', 'endless')}-{number}"} | fields)
        assert (await client.head())[0] == 200
    return clients


async def test_answers_finish_or_are_cut_at_the_limit_and_saved_and_a_second_signal_waits_for_nothing(
    recital: Recital, tmp_path: Path
) -> None:
    """A48(a): five live, three queued, one stalled reader; then new requests."""
    arguments = (str(recital.folder), "--drain", "5", "--max-num-seqs", "5", "--name", WIDE)
    with serving(*arguments, folder=tmp_path) as server:
        stalled = await WireClient.connect(server.port, receive_buffer=2048)
        await stalled.post(CHAT, ENDLESS | {"max_tokens": 400})
        await until(lambda: server.stats()["generated_tokens"] == 400, 20)
        live = await opened(server, 4)
        (short,) = await opened(server, 1, max_tokens=150)
        queued = await opened(server, 3, session_id=None)
        await until(lambda: server.stats()["waiting"] == 3)
        first = [await client.chunk() for client in live]
        engine, began = server.engine_pid(), time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        refused, unready = server.post(CHAT, ENDLESS), server.get("/ready")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
        assert (unready.status_code, server.get("/health").status_code) == (503, 200)
        async with asyncio.timeout(20):
            finished = await short.events()
            cut = [told_by([role, *await client.events()]) for role, client in zip(first, live, strict=True)]
            unseen = [told_by(await client.events()) for client in queued]
        assert server.process.wait(20) == 0
        assert time.monotonic() - began < 32, "DrainLimits says what leaving takes at most"
        await until(lambda: gone(engine), 1)
        stalled.close()
    assert finished[-1] == b"data: [DONE]\n\n"
    assert [error and error["code"] for _, error in (*cut, *unseen)] == ["draining"] * 7
    with serving(*arguments, folder=tmp_path) as server:
        assert_saved(server, recital, [seen for seen, _ in cut])
        await assert_gone_when_told_twice(server)


def assert_saved(server: Serving, recital: Recital, texts: list[str]) -> None:
    """The next turn of each session begins with exactly what its reader saw."""
    for number, seen in enumerate(texts):
        following = server.ask(NEXT, session_id=f"endless-{number}", max_tokens=1)
        kept = following.prompt - recital.asked(QUESTION) - recital.added(NEXT)
        assert recital.seen(recital.asked(QUESTION), kept) == seen


async def assert_gone_when_told_twice(server: Serving) -> None:
    clients, engine = await opened(server, 3), server.engine_pid()
    server.process.send_signal(signal.SIGTERM)
    await asyncio.sleep(0.2)
    assert server.told(signal.SIGTERM, 4) == 0
    errors = [told_by(await client.events())[1] for client in clients]
    assert [error and error["code"] for error in errors] == ["draining"] * 3
    await until(lambda: gone(engine), 1)
