"""The client against a server whose every event has a known moment, and against servers that lie."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable
from statistics import median

import pytest

from chatserve.bench.connection import AFTER_END, clock
from chatserve.bench.crew import ProcessDied, perform_all
from chatserve.bench.load import Closed, Limits, Open, Part
from chatserve.bench.outcome import (
    CUT,
    ERROR_EVENT,
    LENGTH,
    NO_END,
    NO_USAGE,
    NONSENSE,
    TIMEOUT,
    UNREACHABLE,
    Outcome,
)
from chatserve.bench.statistics import percentile
from chatserve.bench.target import BadUrl, Target
from chatserve.bench.workload import Share, Spread, Think, Workload
from tests.bench.playing import SMALL, broken_run, outcomes_of, small_run
from tests.bench.scripted import Script, Scripted, Truth, answers, program, served, serving, truths_of

ONE_TURN = Workload(turns=Spread(1), system=0, answer=Spread(2))
BOTH = pytest.mark.parametrize("stateful", [False, True], ids=["chat", "responses"])


def pairs(scripted: Scripted, turns: list[Outcome]) -> list[tuple[Outcome, Truth]]:
    """Each turn with what the server noted of it: both in the order of sending, on one clock."""
    return list(zip(sorted(turns, key=lambda turn: turn.begin), scripted.asks(), strict=True))


@BOTH
async def test_two_hundred_streams_are_measured_as_they_were_sent(stateful: bool) -> None:
    """Beside what the server itself noted: within 5 %, and on a busy machine within what either side says it was late.

    They come one by one: a server that is asked by 200 at the same instant notes each when it gets to it, and not when
    it was asked.
    """
    workload = Workload(turns=Spread(2), system=10, first=Spread(8), later=Spread(8), answer=Spread(8))
    with program("--first", "1.0", "--between", "0.1") as url:
        run = small_run(url, Open(rate=150), workload=workload, conversations=200, stateful=stateful)
        turns, client_late = await with_lag(outcomes_of(run))
        truths = answers(truths_of(url))
    assert len(turns) == len(truths) == 400
    assert not [turn.failure for turn in turns if turn.failure]
    assert most_at_once(turns) == 200
    late = client_late + (percentile([each for truth in truths for each in truth.late(1.0, 0.1)], 99) or 0.0)
    for found, true in (
        ([turn.ttft for turn in turns], [truth.ttft for truth in truths]),
        ([turn.tpot for turn in turns], [truth.tpot for truth in truths]),
    ):
        assert median(each for each in found if each) == pytest.approx(median(true), rel=0.05, abs=late)


async def with_lag(awaited: Awaitable[list[Outcome]]) -> tuple[list[Outcome], float]:
    """What comes of it, and how late the event loop was meanwhile: the 99th percentile, in seconds."""
    lags: list[float] = []

    async def watch() -> None:
        while True:
            expected = clock() + 0.02
            await asyncio.sleep(0.02)
            lags.append(clock() - expected)

    watching = asyncio.create_task(watch())
    try:
        return await awaited, percentile(lags, 99) or 0.0
    finally:
        watching.cancel()


def most_at_once(turns: list[Outcome]) -> int:
    """Conversations."""
    first = {turn.conversation: turn.begin for turn in turns if turn.turn == 0}
    last = {turn.conversation: turn.ended for turn in turns if turn.turn == 1}
    return max(sum(first[each] <= moment <= last[each] for each in first) for moment in first.values())


@BOTH
async def test_every_moment_is_after_the_servers(stateful: bool) -> None:
    async with serving(Script(first=0.05, between=0.01)) as scripted:
        turns = await outcomes_of(small_run(scripted.url, Closed(1), conversations=1, stateful=stateful))
    for turn, truth in pairs(scripted, turns):
        assert turn.sent is not None
        assert turn.first is not None
        assert turn.first >= truth.texts[0]
        assert turn.ended >= truth.ended
        assert turn.events == len(truth.texts) == 8


async def test_headers_at_once_and_tokens_late_are_late_tokens() -> None:
    async with serving(Script(first=0.3)) as scripted:
        turns = await outcomes_of(small_run(scripted.url, conversations=2))
    for turn in turns:
        assert turn.opened is not None
        assert turn.ttft is not None
        assert turn.ttft >= 0.29
        assert turn.opened < turn.begin + turn.ttft, "the role came first"


@BOTH
@pytest.mark.parametrize(
    ("lie", "kind"),
    [
        ("dies", CUT),
        ("hangs up", CUT),
        ("no usage", NO_USAGE),
        ("no end", NO_END),
        ("error", ERROR_EVENT),
        ("short", LENGTH),
        ("only a role", LENGTH),
        ("html", NO_END),
        ("noise", NONSENSE),
    ],
)
async def test_a_server_that_lies_has_failed(lie: str, kind: str, stateful: bool) -> None:
    async with serving(Script(lie=lie)) as scripted:
        turns = await outcomes_of(small_run(scripted.url, conversations=2, stateful=stateful))
    assert [(turn.turn, turn.failure.kind) for turn in turns if turn.failure] == [(0, kind)] * 2
    assert len(turns) == 2, "a conversation ends with its first failure"
    assert len(scripted.asks()) == 2


async def test_answers_without_text_are_whole_and_have_no_ttft() -> None:
    async with serving(Script(lie="no text")) as scripted:
        turns = await outcomes_of(small_run(scripted.url, conversations=1))
    assert [(turn.whole, turn.ttft) for turn in turns] == [(True, None)] * 3


async def test_a_body_that_lingers_after_its_end_mark_is_in_no_figure() -> None:
    async with serving(Script(lie="lingers")) as scripted:
        turns = await outcomes_of(small_run(scripted.url, Closed(1), conversations=1, workload=ONE_TURN))
        (truth,) = scripted.asks()
        took = clock() - turns[0].ended
    assert turns[0].whole
    assert truth.ended is not None
    assert took >= AFTER_END, "it was waited for"


def test_a_process_that_dies_is_told_of() -> None:
    with served(Script()) as scripted, pytest.raises(ProcessDied):
        perform_all(broken_run(scripted.url), 1, lambda _: None)


async def test_a_stream_that_falls_silent_takes_too_long() -> None:
    async with serving(Script(lie="silent")) as scripted:
        turns = await outcomes_of(small_run(scripted.url, conversations=1, timeout=0.3))
    assert [turn.failure.kind for turn in turns if turn.failure] == [TIMEOUT]


@BOTH
@pytest.mark.parametrize("status", [401, 429, 503])
async def test_a_refusal_is_told_in_the_servers_words(status: int, stateful: bool) -> None:
    async with serving(Script(status=status)) as scripted:
        turns = await outcomes_of(small_run(scripted.url, conversations=1, stateful=stateful))
    (failure,) = [turn.failure for turn in turns if turn.failure]
    assert failure.kind == f"status {status}"
    assert "not now" in failure.told


async def test_a_server_that_is_down_cannot_be_reached() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    turns = await outcomes_of(small_run(url, conversations=1))
    assert [(turn.sent, turn.failure.kind) for turn in turns if turn.failure] == [(None, UNREACHABLE)]


async def test_an_open_loop_counts_from_when_a_turn_was_due() -> None:
    async with serving(Script(first=0.05)) as scripted:
        turns = await outcomes_of(small_run(scripted.url, Open(rate=40), conversations=12))
    assert len(turns) == 36
    assert all(turn.begin == turn.due for turn in turns)
    assert all(turn.late >= 0 for turn in turns)
    due = sorted(turn.due for turn in turns if turn.turn == 0)
    planned = [moment for _, moment in Part(0, 1, Limits(12)).arrivals(Open(rate=40), seed=1)]
    assert [moment - due[0] for moment in due] == pytest.approx([moment - planned[0] for moment in planned])


async def test_readers_who_leave_are_no_failures_and_their_conversations_go_on() -> None:
    leaving = Workload(turns=Spread(3), system=5, first=Spread(5), later=Spread(5), answer=Spread(8), cancel_rate=1.0)
    async with serving(Script(between=0.03)) as scripted:
        turns = await outcomes_of(small_run(scripted.url, workload=leaving, conversations=2))
    assert len(turns) == 6
    assert all(turn.cancelled and turn.failure is None and turn.usage is None for turn in turns)
    assert all(1 <= turn.events < 8 for turn in turns)
    later = max((truth.body["messages"] for truth in scripted.asks()), key=len)
    assert set(later[2]["content"].split()) == {"w"}, "what was read of the answer is what was said"


async def test_branches_and_priorities_are_asked_for() -> None:
    branching = Workload(turns=Spread(4), system=0, answer=Spread(4), branch_rate=1.0, priorities=(Share(7),))
    async with serving(Script()) as scripted:
        turns = await outcomes_of(small_run(scripted.url, workload=branching, conversations=1))
    assert [turn.branch for turn in turns] == [False, True, True, True]
    assert [len(truth.body["messages"]) for truth in scripted.asks()] == [1, 1, 1, 1]
    assert {truth.body["priority"] for truth in scripted.asks()} == {7}


async def test_users_think_before_they_go_on() -> None:
    thinking = Workload(turns=Spread(2), system=0, answer=Spread(2), think=Think(0.2))
    async with serving(Script()) as scripted:
        await outcomes_of(small_run(scripted.url, workload=thinking, conversations=1))
    first, second = scripted.asks()
    assert first.ended is not None
    assert second.asked - first.ended >= 0.2


async def test_time_is_up_for_new_turns_only() -> None:
    async with serving(Script(first=0.05)) as scripted:
        turns = await outcomes_of(small_run(scripted.url, Closed(3), conversations=None, seconds=0.3))
    assert len(turns) == len(scripted.asks())
    assert all(turn.whole for turn in turns), "what runs is read to its end"


async def test_turns_of_the_warm_up_are_marked() -> None:
    warming = Workload(turns=Spread(4), system=0, answer=Spread(2), warm_up=0.25)
    async with serving(Script(first=0.1)) as scripted:
        turns = await outcomes_of(small_run(scripted.url, Closed(1), workload=warming, conversations=1))
    assert turns[0].warm
    assert not turns[-1].warm


async def test_connections_are_kept_and_the_key_is_sent() -> None:
    async with serving(Script()) as scripted:
        turns = await outcomes_of(small_run(scripted.url + "/v1/", Closed(1), key="secret"))
    assert len(turns) == 12
    assert {truth.head["authorization"] for truth in scripted.asks()} == {"Bearer secret"}
    assert len({truth.head["host"] for truth in scripted.asks()}) == 1


def test_processes_share_a_load_without_a_gap() -> None:
    limits = Limits(10)
    parts = [Part(index, 3, limits) for index in range(3)]
    assert sorted(number for part in parts for number in part.numbers()) == list(range(10))
    assert sum(part.users(Closed(7)) for part in parts) == 7
    together = sorted(each for part in parts for each in part.arrivals(Open(3.0), seed=4))
    assert together == list(Part(0, 1, limits).arrivals(Open(3.0), seed=4))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://h/v1", "http://h"),
        ("https://h:8443/openai/v1/", "https://h:8443/openai"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_base_urls_come_with_and_without_a_version(url: str, shown: str) -> None:
    assert str(Target.parse(url, "secret")) == shown
    assert "secret" not in repr(Target.parse(url, "secret"))


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://h", "http://", "http://u:p@h", "http://h:x", "http://h?a=1"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(BadUrl, match="write it as"):
        Target.parse(url)


async def test_a_body_larger_than_the_socket_is_sent_when_its_last_byte_is() -> None:
    large = Workload(turns=Spread(1), system=400_000, answer=Spread(2))
    async with serving(Script()) as scripted:
        began = time.perf_counter()
        (turn,) = await outcomes_of(small_run(scripted.url, Closed(1), workload=large, conversations=1))
    assert turn.sent is not None
    assert began < turn.sent <= scripted.asks()[0].asked + 0.001
    assert SMALL.system < large.system
