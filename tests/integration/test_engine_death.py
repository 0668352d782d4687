"""An engine that dies takes nothing with it but the answers it was giving."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.integration.recital import Recital
from tests.integration.serving import CHAT, Serving, gone, told_by, until
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.model

MARKER = "xyzzy-private"
QUESTION, NEXT = f"Recite {MARKER} without an end.", "Go on."
ENDLESS = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "ignore_eos": True}


async def test_streams_are_told_once_and_their_conversations_go_on_with_a_new_engine(
    reciting: Serving, recital: Recital
) -> None:
    engine = reciting.engine_pid()
    stream, whole = await WireClient.connect(reciting.port), await WireClient.connect(reciting.port)
    await stream.post(CHAT, ENDLESS | {"stream": True, "session_id": MARKER})
    await whole.post(CHAT, ENDLESS)
    assert (await stream.head())[0] == 200
    events = [await stream.chunk() for _ in range(30)]
    os.kill(engine, signal.SIGKILL)
    async with asyncio.timeout(5):
        events += await stream.events()
        status, headers = await whole.head()
        answered = (status, (await whole.json(headers))["error"]["code"])
    seen, error = told_by(events)
    assert answered == (503, "engine_died")
    assert error is not None
    assert error["code"] == "engine_died"
    assert not any(b"[DONE]" in event for event in events)
    unready = reciting.get("/ready")
    assert (unready.status_code, unready.json()["error"]["code"]) == (503, "engine_restarting")
    assert reciting.get("/health").status_code == 200
    assert reciting.get("/metrics").status_code == 200
    await until(reciting.is_ready, 60)
    assert gone(engine)
    assert reciting.engine_pid() != engine
    following = reciting.ask(NEXT, session_id=MARKER, max_tokens=5)
    kept = following.prompt - recital.asked(QUESTION) - recital.added(NEXT)
    assert recital.seen(recital.asked(QUESTION), kept) == seen, "what the user saw is what is known"
    assert following.cached == 0, "the new engine remembers nothing, and says so"
    assert reciting.ask(NEXT, session_id=MARKER, max_tokens=5).cached >= following.known - 2
    assert MARKER not in reciting.output.read_text(), "A40"
