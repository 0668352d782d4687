"""A page that is slow, silent or gone costs nothing: neither the turn, nor the others."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from dataclasses import replace

import pytest

from chatserve.page.answering import MOST_OFTEN
from chatserve.page.follower import MOST, Follower
from chatserve.page.growing import Grown
from chatserve.page.live_turn import LiveTurn, Pace
from chatserve.page.live_wire import Changed, Renamed
from chatserve.page.policy import HEADERS
from tests.page.page_server import PageParts
from tests.page.tab import begin, following, say, tree
from tests.server.running_server import serving
from tests.server.scripted import ready
from tests.server.test_disconnects import until
from tests.server.wire_client import WireClient

WORDS = "Some *words* of an answer, a line of them.\n\n"


async def told(follower: Follower) -> list[dict[str, object]]:
    """All that waits for it; it is closed first."""
    follower.close()
    return [json.loads(event.removeprefix(b"data: ")) async for event in follower.events()]


def shown(turn: LiveTurn, start: int, *blocks: str) -> LiveTurn:
    turn.show(Grown(start, blocks, None))
    return turn


async def test_texts_that_were_not_read_are_told_as_one_and_as_they_are_now() -> None:
    follower, turn = Follower(), LiveTurn("t")
    follower.grew(shown(turn, 0, "a", "b"), 0)
    await asyncio.wait_for(anext(follower.events()), 1)
    follower.grew(shown(turn, 1, "b2", "c"), 1)
    follower.grew(shown(turn, 2, "c2", "d"), 2)
    follower.grew(shown(turn, 3, "d2"), 3)
    (text,) = await told(follower)
    assert (text["type"], text["id"], text["from"], text["blocks"]) == ("text", "resp_t", 1, ["b2", "c2", "d2"])


async def test_an_end_says_everything_that_was_still_to_be_told() -> None:
    follower, turn, other = Follower(), LiveTurn("t"), LiveTurn("other")
    follower.grew(turn, 0)
    follower.forget(other)
    follower.forget(turn)
    follower.tell(Changed())
    assert [event["type"] for event in await told(follower)] == ["changed"]


async def test_what_happened_is_told_before_what_grows() -> None:
    follower, turn = Follower(), LiveTurn("t")
    follower.grew(turn, 0)
    follower.tell(Renamed(title="é\r\n\n"))
    assert [event["type"] for event in await told(follower)] == ["renamed", "text"]


async def test_a_page_that_reads_nothing_is_sent_away_and_may_ask_again() -> None:
    follower = Follower()
    for _ in range(MOST + 1):
        follower.tell(Changed())
    assert len([event async for event in follower.events()]) == MOST + 1


def test_pace_is_measured_from_the_first_text_on() -> None:
    now = 10.0
    pace = Pace(9.5, lambda: now)
    pace.note(3)
    now = 12.0
    pace.note(23)
    times = pace.times()
    assert (times.ttft_ms, times.tokens_per_second) == (500.0, 10.0)


async def test_a_page_that_takes_nothing_slows_nobody_and_is_let_go(
    parts: PageParts, caplog: pytest.LogCaptureFixture
) -> None:
    parts.send_buffer = 4096
    parts.limits = replace(parts.limits, send_seconds=0.3)
    assert parts.engine.info is not None
    spec = parts.engine.info.spec
    parts.engine.info = ready(vocab_size=spec.vocab_size, end_ids=spec.end_ids, max_tokens=100_000)
    parts.engine.script = lambda _request: parts.tokenizer.encode(WORDS * 1500)
    parts.engine.pace = None
    async with serving(parts) as server:
        http = server.http()
        name = await begin(http)
        stalled = await WireClient.connect(server.port, receive_buffer=2048)
        await stalled.send(f"GET /page/conversations/{name}/events HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        await until(lambda: len(parts.relay.rooms))
        async with following(http, name) as tab:
            await say(http, name, "Hi")
            end = await tab.until("end")
            assert len(end["turn"]["blocks"]) == 1500
            await until(lambda: "let go" in caplog.text, 5)
        stalled.close()
        await until(lambda: not len(parts.relay.rooms), 5)


async def test_texts_come_a_few_times_a_second_however_fast_they_are_made(parts: PageParts) -> None:
    parts.engine.script = lambda _request: parts.tokenizer.encode(WORDS * 20)
    parts.engine.pace = 0.0005
    async with serving(parts) as server:
        http = server.http()
        name = await begin(http)
        async with following(http, name) as tab:
            began = time.monotonic()
            await say(http, name, "Hi")
            await tab.until("end")
            took = time.monotonic() - began
        texts = [event for event in tab.events if event["type"] == "text"]
        assert 1 <= len(texts) <= took / MOST_OFTEN + 1


async def test_a_silent_conversation_is_pinged_by_comments(parts: PageParts) -> None:
    """A27, A28"""
    parts.limits = replace(parts.limits, ping_seconds=0.05)
    async with serving(parts) as server:
        http = server.http()
        name = await begin(http)
        async with http.stream("GET", f"/page/conversations/{name}/events") as response:
            assert response.headers["x-accel-buffering"] == "no"
            assert response.headers["cache-control"] == "no-store"
            assert response.headers["x-request-id"]
            assert {name: response.headers[name] for name in HEADERS} == HEADERS
            assert "content-encoding" not in response.headers
            lines = response.aiter_lines()
            seen = [await anext(lines) for _ in range(8)]
    assert seen[0] == 'data: {"type":"state","running":null,"elsewhere":false}'
    assert seen[1::2] == ["", "", "", ""]
    assert seen[2::2] == [": ping", ": ping", ": ping"]


async def test_no_word_of_anybodys_reaches_the_log(parts: PageParts, caplog: pytest.LogCaptureFixture) -> None:
    """A40"""
    marker = "unheard-of-marker"
    parts.engine.script = lambda _request: parts.tokenizer.encode(f"*{marker}*")
    with caplog.at_level(logging.DEBUG):
        async with serving(parts) as server:
            http = server.http()
            name = await begin(http, title=marker)
            async with following(http, name) as tab:
                await say(http, name, marker, instructions=marker)
                await tab.until("end")
                await tree(http, name)
                await say(http, name, marker, settings={marker: 1})
    own = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    assert any("its turn has ended, " in record.getMessage() for record in own)
    assert not any(marker in record.getMessage() + str(record.exc_text) for record in own)
