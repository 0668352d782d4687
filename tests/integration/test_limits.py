"""Requests that are too long, too large or empty, against the real engine: refused by name, and nobody else notices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.recital import CONTEXT
from tests.integration.serving import CHAT, WIDE, Serving

pytestmark = pytest.mark.model

SMALL = {"messages": [{"role": "user", "content": "Recite."}], "max_tokens": 5, "temperature": 0}


@pytest.mark.parametrize("beyond", [0, 1, 256])
def test_a_prompt_that_can_never_fit_is_refused_with_the_limit(reciting: Serving, beyond: int) -> None:
    """A08"""
    reply = reciting.post("/v1/completions", {"prompt": [1000] * (CONTEXT + beyond), "max_tokens": 1})
    assert reply.status_code == 400
    assert str(CONTEXT) in reply.json()["error"]["message"]
    assert reciting.post(CHAT, SMALL).status_code == 200


def test_an_answer_is_as_long_as_the_context_allows_whatever_was_asked(reciting: Serving) -> None:
    """A08, A20: a prompt that leaves room for three tokens; nothing is held for the length that was asked for."""
    body = {"prompt": [900] * (CONTEXT - 3), "max_tokens": 2**63, "ignore_eos": True, "temperature": 0}
    reply = reciting.post("/v1/completions", body).json()
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["total_tokens"] == CONTEXT
    assert reciting.idle()


@pytest.mark.parametrize("most", [None, 2**31, 2**63, CONTEXT, CONTEXT + 1])
def test_a_limit_beyond_the_context_means_as_much_as_there_is(reciting: Serving, most: int | None) -> None:
    """A20: the end token comes first."""
    reply = reciting.post(CHAT, SMALL | {"max_tokens": most}).json()
    assert reply["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": []},
        {"messages": [{"role": "user", "content": None}]},
        {"messages": [{"role": "user", "content": []}]},
        {"max_tokens": 0},
        {"max_tokens": -1},
        {"max_tokens": "10"},
        {"max_tokens": 1.5},
        {"temperature": -1},
        {"temperature": 1e30},
        {"stop_token_ids": [49152]},
    ],
)
def test_what_cannot_be_answered_is_refused_and_the_next_request_is_not(
    reciting: Serving, fields: dict[str, Any]
) -> None:
    """A15, A19, A20"""
    reply = reciting.post(CHAT, SMALL | fields)
    assert reply.status_code == 400
    assert next(iter(fields)) in reply.json()["error"]["message"]
    assert reciting.post(CHAT, SMALL).json()["usage"]["completion_tokens"] == 5


def test_messages_without_a_word_are_answered_like_any_other(reciting: Serving) -> None:
    """A19: an empty string, a system message alone, an empty answer in the middle."""
    user, system, silence = (
        {"role": role, "content": text} for role, text in (("user", ""), ("system", "Be good."), ("assistant", ""))
    )
    for messages in ([user], [system], [user, silence, user]):
        assert reciting.ask("", messages=messages, max_tokens=3).completion == 3


def test_a_model_can_be_named_however_long_its_name_is(reciting: Serving) -> None:
    assert reciting.ask("Recite.", max_tokens=1, model=WIDE).completion == 1
