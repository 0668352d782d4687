"""Knowing why, through the whole product: what each answer says of its prompt, and what is seen of its memory."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.serving import CHAT, Serving

pytestmark = pytest.mark.model

QUESTION = "Tell me about a river. " * 20


def say(server: Serving, text: str, session: str, **fields: Any) -> dict[str, Any]:
    """What its usage says of the prompt."""
    body = {"messages": [{"role": "user", "content": text}], "session_id": session, "temperature": 0, "max_tokens": 8}
    reply = server.post(CHAT, body | {"ignore_eos": True} | fields)
    assert reply.status_code == 200, reply.text
    details = reply.json()["usage"]["prompt_tokens_details"]
    found = dict(details["chatserve"])
    assert details["cached_tokens"] == sum(found[name] for name in ("taken_over", "mapped", "copied", "promoted"))
    return found


def memory(server: Serving, session: str) -> dict[str, Any]:
    return dict(server.get(f"/v1/sessions/{session}/memory").json())


def test_a_conversation_knows_why(chatting: Serving) -> None:
    first = say(chatting, QUESTION, "a")
    assert first["stopped"]["why"] in ("nothing_recorded", "differs", "record_ends")  # others may have begun alike
    whole = memory(chatting, "a")
    assert (whole["warm"], whole["stopped"]) == (True, None)
    assert whole["physical_bytes"] == whole["private_bytes"] + whole["shared_bytes"] > 0
    second = say(chatting, "And a lake?", "a")
    assert second["taken_over"] >= whole["tokens"] - 1
    assert second["stopped"]["why"] == "record_ends"
    assert (second["mapped"], second["copied"], second["promoted"]) == (0, 0, 0)


def test_a_flush_is_told_and_a_warm_up_makes_it_good(chatting: Serving) -> None:
    say(chatting, QUESTION, "b")
    tokens = memory(chatting, "b")["tokens"]
    chatting.post("/admin/flush", {}).raise_for_status()
    flushed = memory(chatting, "b")
    assert (flushed["recorded_tokens"], flushed["physical_bytes"], flushed["stopped"]["why"]) == (0, 0, "flushed")
    generated = chatting.stats()["generated_tokens"]
    for _ in range(2):
        warmed = chatting.post("/v1/sessions/b/warm", {}).raise_for_status().json()
        assert (warmed["recorded_tokens"], warmed["warm"], warmed["stopped"]) == (tokens, True, None)
    assert chatting.stats()["generated_tokens"] == generated
    assert say(chatting, "And a lake?", "b")["taken_over"] == tokens


def test_another_tenant_is_told_nothing(chatting: Serving) -> None:
    say(chatting, QUESTION, "c")
    other = say(chatting, QUESTION, "c", cache_salt="another")
    assert (other["stopped"]["at"], other["stopped"]["why"]) == (0, "nothing_recorded")
    assert other["stopped"]["found"] is None
