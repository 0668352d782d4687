"""What a client sends, turn after turn."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chatserve.bench.dialects import BadAnswer
from chatserve.bench.plan import ConversationPlan, TurnPlan
from chatserve.bench.talks import Manner, Stateful, Stateless

PLAN = ConversationPlan(number=0, system="be kind", turns=(), priority=2)
MANNER = Manner(model="m")


def turn(message: str, *, branch: bool = False) -> TurnPlan:
    return TurnPlan(message=message, answer=8, branch=branch)


def said(body: bytes) -> list[tuple[str, str]]:
    fields = json.loads(body)
    return [(each["role"], each["content"]) for each in fields.get("messages") or fields["input"]]


def place(body: bytes) -> dict[str, Any]:
    return {key: value for key, value in json.loads(body).items() if key in ("conversation", "previous_response_id")}


def test_the_whole_history_is_sent_again_with_the_models_own_words() -> None:
    talk = Stateless(PLAN, MANNER)
    assert talk.opening is None
    talk.ask(turn("q1"))
    talk.answered("a1", None)
    body = talk.ask(turn("q2"))
    assert said(body) == [("system", "be kind"), ("user", "q1"), ("assistant", "a1"), ("user", "q2")]
    assert {key: value for key, value in json.loads(body).items() if key != "messages"} == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 8,
        "ignore_eos": True,
        "temperature": 0.0,
        "priority": 2,
    }


def test_a_branch_takes_the_last_exchanges_place() -> None:
    talk = Stateless(PLAN, MANNER)
    for message in ("q1", "q2"):
        talk.ask(turn(message))
        talk.answered(f"a to {message}", None)
    body = talk.ask(turn("q3", branch=True))
    assert said(body) == [("system", "be kind"), ("user", "q1"), ("assistant", "a to q1"), ("user", "q3")]


def test_other_servers_are_asked_for_nothing_they_do_not_know() -> None:
    plan = ConversationPlan(number=0, system=None, turns=())
    fields = json.loads(Stateless(plan, Manner("m", fixed_length=False)).ask(turn("q")))
    assert not {"ignore_eos", "priority"} & set(fields)
    assert len(fields["messages"]) == 1


def test_a_kept_conversation_is_sent_only_what_is_new() -> None:
    talk = Stateful(PLAN, MANNER)
    assert talk.opening == "/v1/conversations"
    talk.opened(b'{"id": "conv_1", "object": "conversation"}')
    first = talk.ask(turn("q1"))
    assert (said(first), place(first)) == ([("system", "be kind"), ("user", "q1")], {"conversation": "conv_1"})
    talk.answered("a1", "resp_1")
    second = talk.ask(turn("q2"))
    assert (said(second), place(second)) == ([("user", "q2")], {"conversation": "conv_1"})
    assert json.loads(second)["max_output_tokens"] == 8


def test_a_branch_goes_on_from_the_answer_before() -> None:
    talk = Stateful(PLAN, MANNER)
    talk.opened(b'{"id": "conv_1"}')
    for number in (1, 2):
        talk.ask(turn(f"q{number}"))
        talk.answered("a", f"resp_{number}")
    branch = talk.ask(turn("q3", branch=True))
    assert (said(branch), place(branch)) == ([("user", "q3")], {"previous_response_id": "resp_1"})
    talk.answered("a", "resp_3")
    assert place(talk.ask(turn("q4"))) == {"previous_response_id": "resp_3"}, "a branch belongs to no conversation"


def test_the_first_exchange_can_be_replaced_too() -> None:
    talk = Stateful(PLAN, MANNER)
    talk.opened(b'{"id": "conv_1"}')
    talk.ask(turn("q1"))
    talk.answered("a", "resp_1")
    again = talk.ask(turn("q2", branch=True))
    assert (said(again), place(again)) == ([("system", "be kind"), ("user", "q2")], {})


def test_a_server_that_keeps_no_conversations_is_told_of() -> None:
    with pytest.raises(BadAnswer, match="gave no conversation"):
        Stateful(PLAN, MANNER).opened(b"<html>")
    talk = Stateful(PLAN, MANNER)
    talk.opened(b'{"id": "conv_1"}')
    with pytest.raises(BadAnswer, match="no id"):
        talk.answered("a", None)
