"""Forks of one conversation, running at once: its chunks are shared, and each costs one copied tail."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.integration.recital import Recital
from tests.integration.serving import WIDE, Serving, until

pytestmark = pytest.mark.model

FORKS = 10
PAST = 1000


def story(recital: Recital) -> str:
    """A question whose prompt has at least so many tokens."""
    words = "word"
    while recital.asked(words) < PAST:
        words += " word" * (PAST - recital.asked(words))
    return words


async def begun(client: AsyncOpenAI, previous: str, number: int) -> tuple[str, Any]:
    """An endless fork, after its first word: its id, and its events still to come."""
    stream = await client.responses.create(
        model=WIDE,
        input=f"Fork {number}.",
        previous_response_id=previous,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    name = ""
    events = aiter(stream)
    async for event in events:
        name = event.response.id if event.type == "response.created" else name
        if event.type == "response.output_text.delta":
            return name, events
    raise AssertionError("the fork ended")


async def test_ten_forks_of_a_thousand_tokens_share_its_chunks_and_compute_only_what_is_new(
    reciting: Serving, recital: Recital
) -> None:
    await until(reciting.idle)
    reciting.post("/admin/flush", {}).raise_for_status()
    before = reciting.stats()
    async with AsyncOpenAI(base_url=f"{reciting.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        root = await client.responses.create(
            model=WIDE, input=story(recital), max_output_tokens=8, extra_body={"ignore_eos": True}
        )
        past = root.usage.total_tokens
        recorded = reciting.stats()
        forks = await asyncio.gather(*(begun(client, root.id, number) for number in range(FORKS)))
        running = reciting.stats()
        tokens = running["chunk_tokens"]
        whole = past // tokens
        chunk = recorded["private_bytes"] // -(-past // tokens)
        grown = (running["generated_tokens"] - recorded["generated_tokens"]) // tokens
        assert whole >= 3
        assert running["running"] == FORKS
        held = running["private_bytes"] + running["shared_bytes"]
        assert held <= (whole + 1 + 2 * FORKS + grown) * chunk, "the past once, and the end of each"
        assert running["mapped_bytes"] >= FORKS * (whole + 1) * chunk, "though each fork sees all of it"
        tails = (running["copies"] - recorded["copies"]) + (running["takeovers"] - recorded["takeovers"])
        assert tails == FORKS, "one tail each: copied, or gone on in where it is"
        kept = await asyncio.gather(*(client.responses.cancel(name) for name, _ in forks))
        for reply, (_, events) in zip(kept, forks, strict=True):
            assert reply.status == "cancelled"
            assert reply.usage.input_tokens_details.cached_tokens >= past - 1
            assert [event async for event in events][-1].response.id == reply.id
    await until(reciting.idle)
    after = reciting.stats()
    generated = after["generated_tokens"] - before["generated_tokens"]
    computed = after["computed_tokens"] - before["computed_tokens"] - generated
    assert computed <= past + FORKS * (recital.added("Fork 0.") + 2), "the past was computed once"
