"""Readers who take nothing cost their own stream, and nobody else."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.integration.recital import Recital
from tests.integration.serving import CHAT, WIDE, Serving, told_by, until
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.model

READERS = 50
TOKENS = 250
ENDLESS = {"messages": [{"role": "user", "content": "Recite."}], "temperature": 0, "ignore_eos": True, "stream": True}
MOST_GROWTH = READERS * 256 * 1024
"""About half of what the events would take together if they were kept."""


async def test_fifty_readers_who_take_nothing_neither_fill_the_server_nor_hold_up_the_others(
    reciting: Serving, recital: Recital
) -> None:
    """A26, A09: the neighbour, of a higher priority, has others preempted, who notice nothing but time."""
    assert READERS * TOKENS * len(WIDE) > 1.5 * MOST_GROWTH
    reciting.ask("Recite.", max_tokens=1)
    preempted = reciting.stats()["preemptions"]
    before, began = reciting.resident_bytes(), time.monotonic()
    stalled = [await WireClient.connect(reciting.port, receive_buffer=2048) for _ in range(READERS)]
    for client in stalled:
        await client.post(CHAT, ENDLESS | {"max_tokens": TOKENS})
    await until(lambda: reciting.stats()["running"] >= 10)
    neighbour = await WireClient.connect(reciting.port)
    await neighbour.post(CHAT, ENDLESS | {"max_tokens": TOKENS, "priority": -1})
    async with asyncio.timeout(30):
        await neighbour.head()
        told = await neighbour.events()
    assert reciting.stats()["running"] > 0, "the neighbour did not wait for the others' end"
    assert told_by(told) == (recital.text(recital.asked("Recite."), TOKENS), None)
    await until(reciting.idle, 60)  # whoever reads slowly holds no KV memory when the answer is complete
    assert reciting.resident_bytes() - before < MOST_GROWTH
    assert time.monotonic() - began < 50, "or they would have been let go"
    assert reciting.stats()["preemptions"] > preempted
    for client in stalled:
        assert (await client.head())[0] == 200
        assert told_by(await client.events()) == told_by(told), "what waited is all there, once"
        client.close()
    assert reciting.ask("Recite.", max_tokens=1).completion == 1
