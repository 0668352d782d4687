"""The loads of `make bench`, on scripted servers: what is compared with what, and what becomes of a failure."""

from __future__ import annotations

import json

import pytest

from chatserve.bench.measuring import Asked, Reading
from chatserve.bench.plan import ConversationPlan, TurnPlan
from chatserve.bench.talks import Manner
from chatserve.bench.target import Target
from chatserve.bench.workload import Spread, Workload
from loadtest.comparing import TurnFailed, measured, service_at
from loadtest.cpu_loads import Load, compared, without_reuse
from loadtest.transformers_serve import TransformersService
from tests.bench.scripted import Script, served

SMALL = Workload(turns=Spread(2), system=0, first=Spread(5), later=Spread(5), answer=Spread(4))


def test_the_second_server_stands_over_the_first_and_what_was_said_to_each_is_the_same() -> None:
    with served(Script(first=0.05, between=0.02)) as slow, served(Script()) as fast:
        services = [without_reuse(service_at(slow.url)), service_at(fast.url)]
        record = measured(services, SMALL, users=2, conversations=2)
        said = [
            [(each.body["messages"], each.body.get("reuse_prefix")) for each in at.asks()[1:]] for at in (slow, fast)
        ]
    found = compared("reuse", record)
    assert found["ratios"]["throughput"] > 1
    assert found["ratios"]["ttft_later"] < 1
    assert set(found["aims"]) == {"throughput", "ttft_later"}
    assert sorted(json.dumps(each) for each, _ in said[0]) == sorted(json.dumps(each) for each, _ in said[1])
    assert {reuse for _, reuse in said[0]} == {False}
    assert {reuse for _, reuse in said[1]} == {None}


def test_a_measurement_with_a_failure_is_none() -> None:
    with served(Script(lie="no usage")) as lying, pytest.raises(TurnFailed, match="no usage"):
        measured([service_at(lying.url)], SMALL, users=1, conversations=1)


def test_a_stream_that_ends_with_its_usage_is_whole_to_whom_it_is_told_and_no_field_is_unknown_to_it() -> None:
    service = TransformersService(Target.parse("http://127.0.0.1:1"), Manner("m"))
    talk = service.talk(ConversationPlan(0, None, (TurnPlan("Hi", 3),)))
    asked = json.loads(talk.ask(TurnPlan("Hi", 3)))
    assert set(asked) == {
        "model",
        "messages",
        "stream",
        "stream_options",
        "max_tokens",
        "temperature",
        "generation_config",
    }
    reading = Reading(talk.dialect)
    reading.feed(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', 2.0)
    last = {
        "choices": [{"delta": {}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3},
    }
    reading.feed(b"data: " + json.dumps(last).encode() + b"\n\n", 3.0)
    reading.close(4.0, whole=True)
    outcome = reading.outcome(Asked(0, 0, due=1.0, exact=3), 1.0, 4.0)
    assert (outcome.whole, outcome.ttft, outcome.e2e) == (True, 1.0, 2.0)


def test_a_quick_load_is_a_smaller_one() -> None:
    load = Load(Workload(answer=Spread(40)), users=8, conversations=48, rounds=2).quick()
    assert (load.users, load.conversations, load.rounds, load.workload.answer.mean) == (2, 2, 1, 10)
