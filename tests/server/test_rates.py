"""What a key may use in a minute, over all processes of a server together."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import AsyncOpenAI, RateLimitError

from chatserve.server.edge import OPEN, Edge
from chatserve.server.keys import KeyRing
from chatserve.server.meters import ROWS, Meters, Wait
from chatserve.server.visit import Caller, Rates
from tests.server.running_server import Parts, serving
from tests.server.test_keys import ALICE, BOB, CHAT, HELLO, client_of, keys_in

PROMPT_TOKENS = 24
"""Of HELLO."""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file() -> Iterator[int]:
    file = Meters.share()
    yield file
    os.close(file)


def six(requests: int | None = 6, tokens: int | None = None, name: str = "a") -> Caller:
    return Caller(name, rates=Rates(requests, tokens))


def test_a_minutes_worth_may_be_used_at_once_and_comes_back_evenly(file: int, clock: Clock) -> None:
    meters = Meters(file, clock=clock)
    assert [meters.enter(six()) for _ in range(6)] == [None] * 6
    assert meters.enter(six()) == Wait("requests", 6, 10.0)
    clock.now += 4
    assert meters.enter(six()) == Wait("requests", 6, pytest.approx(6.0))
    clock.now += 6
    assert meters.enter(six()) is None
    assert meters.enter(six()) is not None
    clock.now += 10_000  # no more than a minute's worth is ever saved up
    assert [meters.enter(six()) for _ in range(7)].count(None) == 6


def test_what_a_request_used_is_owed_until_it_has_come_back(file: int, clock: Clock) -> None:
    meters, caller = Meters(file, clock=clock), six(None, 60)
    assert meters.enter(caller) is None
    meters.charge(caller, 160)
    assert meters.enter(caller) == Wait("tokens", 60, 101.0)
    clock.now += 101
    assert meters.enter(caller) is None


def test_callers_are_metered_apart_and_those_without_limits_not_at_all(file: int, clock: Clock) -> None:
    meters = Meters(file, clock=clock)
    assert [meters.enter(six(1, name=name)) for name in ("a", "b", "", "c")] == [None] * 4
    assert [meters.enter(six(1, name=name)) is None for name in ("a", "b", "", "c")] == [False] * 4
    assert all(meters.enter(six(None, None, "d")) is None for _ in range(1000))


def test_a_limit_that_changes_holds_from_then_on(file: int, clock: Clock) -> None:
    meters = Meters(file, clock=clock)
    assert meters.enter(six(None)) is None
    assert [meters.enter(six(2)) is None for _ in range(3)] == [True, True, False]
    assert meters.enter(six(None)) is None


def test_more_callers_than_there_are_rows_are_still_metered(file: int, clock: Clock) -> None:
    meters = Meters(file, clock=clock)
    for number in range(ROWS + 10):
        clock.now += 0.001
        assert meters.enter(six(1, name=f"caller {number}")) is None
    assert meters.enter(six(1, name=f"caller {ROWS + 9}")) is not None
    assert meters.enter(six(1, name="caller 0")) is None  # away longest, and forgotten


CROWD = """
import sys
from chatserve.server.meters import Meters
from chatserve.server.visit import Caller, Rates
meters = Meters(int(sys.argv[1]), clock=lambda: 1.0)
print(sum(meters.enter(Caller("a", rates=Rates(1000, None))) is None for _ in range(700)))
"""


def test_processes_together_let_through_what_one_would(file: int) -> None:
    command = [sys.executable, "-c", CROWD, str(file)]
    crowd = [subprocess.Popen(command, pass_fds=(file,), stdout=subprocess.PIPE) for _ in range(3)]
    assert sum(int(process.communicate()[0]) for process in crowd) == 1000


@pytest.fixture
def limited(parts: Parts, tmp_path: Path, file: int, clock: Clock) -> Parts:
    """alice: two requests a minute; bob: a hundred tokens."""
    text = f"alice:{ALICE} requests=2\nbob:{BOB} tokens=100\n"
    parts.edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path, text)), meters=Meters(file, clock=clock))
    return parts


async def test_one_request_too_many_is_told_when_to_come_back(limited: Parts, clock: Clock) -> None:
    async with client_of(limited, ALICE) as client:
        statuses = [(await client.post(CHAT, json=HELLO)).status_code for _ in range(2)]
        refused = await client.post(CHAT, json=HELLO)
        assert [*statuses, refused.status_code] == [200, 200, 429]
        assert refused.headers["retry-after"] == "30"
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert refused.json()["error"]["code"] == "rate_limit_exceeded"
        assert (await client.get("/health")).status_code == 200
        clock.now += 30
        assert (await client.post(CHAT, json=HELLO)).status_code == 200
    assert len(limited.engine.streams) == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_computed_tokens_count_and_reused_ones_do_not(limited: Parts, clock: Clock, stream: bool) -> None:
    """45 tokens, then three times 22: of a prompt that is known whole, the last token is computed."""
    said = HELLO | {"stream": stream}
    async with client_of(limited, BOB) as client:
        assert [(await client.post(CHAT, json=said)).status_code for _ in range(4)] == [200] * 4
        refused = await client.post(CHAT, json=said)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "8")  # 12 tokens at 100 a minute
        clock.now += 8
        assert (await client.post(CHAT, json=said)).status_code == 200


async def test_an_answer_that_its_reader_leaves_counts_as_far_as_it_came(limited: Parts) -> None:
    limited.engine.pace = 0.01
    async with serving(limited) as running:
        http = running.http()
        http.headers["Authorization"] = f"Bearer {BOB}"
        async with http.stream("POST", CHAT, json=HELLO | {"stream": True, "ignore_eos": True}) as response:
            async for _ in response.aiter_lines():
                break
        await limited.running.idle()
        meters = limited.edge.meters
        assert meters is not None
        meters.charge(Caller("bob", rates=Rates(None, 100)), 100 - PROMPT_TOKENS)
        assert (await http.post(CHAT, json=HELLO)).status_code == 429


async def test_the_official_client_waits_and_tries_again(limited: Parts) -> None:
    async with serving(limited) as running:
        client = AsyncOpenAI(base_url=f"{running.url}/v1", api_key=ALICE, max_retries=0)
        running.clients.append(client)
        for _ in range(2):
            await client.models.list()
        with pytest.raises(RateLimitError) as refused:
            await client.models.list()
        assert refused.value.response.headers["retry-after"] == "30"


async def test_without_keys_all_clients_together_are_limited(parts: Parts, file: int, clock: Clock) -> None:
    parts.edge = Edge(anybody=Caller("", admin=True, rates=Rates(1, None)), meters=Meters(file, clock=clock))
    async with client_of(parts) as client:
        assert [(await client.get("/v1/models")).status_code for _ in range(2)] == [200, 429]


def test_an_open_server_limits_nobody() -> None:
    assert OPEN.rates == Rates()
