"""Clients that leave a real engine: whatever phase their request is in, nothing runs on for nobody."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from tests.integration.serving import CHAT, Serving, until
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.model

SOON = 1.0
ENDLESS = {"messages": [{"role": "user", "content": "Recite."}], "ignore_eos": True, "temperature": 0}
LONG = 12_000
BATCH = 16
"""What runs at once; more wait."""

LEAVE = pytest.mark.parametrize("leave", [WireClient.close, WireClient.vanish], ids=["closed", "reset"])
STREAMED = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.fixture(scope="module")
def unseen_tokens() -> Iterator[int]:
    """Each prompt of its own token, so that none is in the cache."""
    return count(1000)


async def posted(server: Serving, path: str, body: dict[str, Any]) -> WireClient:
    client = await WireClient.connect(server.port)
    await client.post(path, body)
    return client


async def assert_free(server: Serving, since: float) -> None:
    """Nothing runs a moment later, and whoever comes next is served at once."""
    await until(server.idle, since + SOON - time.monotonic())
    began = time.monotonic()
    server.ask("Recite.", max_tokens=1)
    assert time.monotonic() - began < SOON


@STREAMED
@LEAVE
async def test_a_long_prompt_is_given_up_with_its_client(
    reciting: Serving, unseen_tokens: Iterator[int], stream: bool, leave: Callable[[WireClient], None]
) -> None:
    """A24, A25: while it is being computed, chunk by chunk."""
    before = reciting.stats()
    body = {"prompt": [next(unseen_tokens)] * LONG, "stream": stream, "max_tokens": 50}
    client = await posted(reciting, "/v1/completions", body)
    await until(lambda: reciting.stats()["computed_tokens"] > before["computed_tokens"])
    leave(client)
    await assert_free(reciting, time.monotonic())
    after = reciting.stats()
    assert after["computed_tokens"] < before["computed_tokens"] + LONG
    assert after["generated_tokens"] <= before["generated_tokens"] + 1


@STREAMED
async def test_a_request_that_has_only_just_come_is_given_up_with_its_client(reciting: Serving, stream: bool) -> None:
    """A24: before anything was computed, perhaps before it was read."""
    client = await posted(reciting, CHAT, ENDLESS | {"stream": stream})
    client.vanish()
    await assert_free(reciting, time.monotonic())


@STREAMED
@LEAVE
async def test_an_answer_stops_with_its_client(
    reciting: Serving, stream: bool, leave: Callable[[WireClient], None]
) -> None:
    """A24, A25"""
    before = reciting.stats()["generated_tokens"]
    client = await posted(reciting, CHAT, ENDLESS | {"stream": stream})
    await until(lambda: reciting.stats()["generated_tokens"] > before + 10)
    leave(client)
    await assert_free(reciting, time.monotonic())


async def test_those_who_wait_and_those_who_run_all_leave_at_once(reciting: Serving) -> None:
    """A24: streamed and not; twice as many as can run."""
    clients = [await posted(reciting, CHAT, ENDLESS | {"stream": number % 2 == 0}) for number in range(2 * BATCH)]
    await until(lambda: reciting.stats()["running"] == BATCH)
    assert reciting.stats()["waiting"] == BATCH
    for client in clients[BATCH:]:
        client.close()
    await until(lambda: reciting.stats()["waiting"] == 0, SOON)
    assert reciting.stats()["running"] == BATCH, "those who stay are not disturbed"
    for client in clients[:BATCH]:
        client.vanish()
    await assert_free(reciting, time.monotonic())
