"""Responses under way in one API process, asked for at another of the same server and store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from openai import NotFoundError

from chatserve.server.live import LiveResponses
from chatserve.text.tokenizer import Tokenizer
from tests.server.conftest import ANSWER
from tests.server.running_server import Running, open_parts, serving
from tests.server.scripted import ScriptedEngine
from tests.server.test_responses import prompt, say


@pytest.fixture
async def pair(tmp_path: Path, tokenizer: Tokenizer, engine: ScriptedEngine) -> AsyncIterator[tuple[Running, Running]]:
    """Each hears what the other says."""
    near, far = [await open_parts(tmp_path, tokenizer, engine) for _ in range(2)]
    near.live = LiveResponses(lambda said: far.live.hear(said))
    far.live = LiveResponses(near.live.hear)
    async with serving(near) as one, serving(far) as other:
        yield one, other
    for parts in (near, far):
        await parts.store.close()


async def test_a_running_response_can_be_read_and_cancelled_by_its_id(pair: tuple[Running, Running]) -> None:
    near, far = pair
    near.engine.pace = 0.02
    stream = await say(near.openai(), "Hi", stream=True)
    name, seen = (await anext(aiter(stream))).response.id, ""
    async for event in stream:
        seen += event.delta if event.type == "response.output_text.delta" else ""
        if len(seen) == 5:
            break
    client = far.openai()
    running = await client.responses.retrieve(name)
    assert running.status == "in_progress"
    assert ANSWER.startswith(running.output_text)
    assert len(running.output_text) >= len(seen)
    cancelled = await client.responses.cancel(name)
    assert cancelled.status == "cancelled"
    assert (await client.responses.retrieve(name)).output_text == cancelled.output_text


async def test_who_goes_on_from_one_waits_for_its_end(pair: tuple[Running, Running]) -> None:
    near, far = pair
    near.engine.pace = 0.01
    stream = await say(near.openai(), "Hi", stream=True)
    name = (await anext(aiter(stream))).response.id
    following = asyncio.create_task(say(far.openai(), "more", previous_response_id=name))
    assert [event async for event in stream][-1].type == "response.completed"
    assert (await following).previous_response_id == name
    assert prompt(near) == f"user\nHi\nassistant\n{ANSWER}\nuser\nmore\nassistant\n"


async def test_what_nobody_makes_is_missing(pair: tuple[Running, Running]) -> None:
    client = pair[1].openai()
    name = (await say(client, "Hi")).id
    await client.responses.delete(name)
    with pytest.raises(NotFoundError, match="There is no response"):
        await client.responses.retrieve(name)
    with pytest.raises(NotFoundError) as refused:
        await say(client, "more", previous_response_id=name)
    assert refused.value.code == "previous_response_not_found"
