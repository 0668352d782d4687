"""The memory made visible, from a real engine's rTree to a reader's event."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.integration.serving import Serving, wait_until

pytestmark = pytest.mark.model

SALT = "?cache_salt=pictures"


def events(reply: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in reply.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def said(server: Serving, conversation: str, words: str) -> str:
    body = {"input": words, "conversation": conversation, "max_output_tokens": 16, "cache_salt": "pictures"}
    return str(server.post("/v1/responses", body).raise_for_status().json()["id"])


def test_a_conversation_is_seen_as_it_grows_and_branches_and_when_it_was_flushed(reciting: Serving) -> None:
    body = {"metadata": {"title": "Of cats"}, "cache_salt": "pictures"}
    name = reciting.post("/v1/conversations", body).json()["id"]
    with httpx.stream("GET", f"{reciting.url}/page/memory/events{SALT}&conversation={name}", timeout=30) as reply:
        told = events(reply)
        assert next(told)["nodes"] == []
        first = said(reciting, name, "tell me of cats " * 200)
        leaf = until(told, lambda view: [each for each in view["nodes"] if not each["in_use"]])["nodes"][0]
        assert (leaf["conversation"], leaf["title"], leaf["next"] is not None) == (name, "Of cats", True)
        said(reciting, name, "and more")
        grown = until(told, lambda view: not view["nodes"][0]["in_use"] and view["nodes"][0]["end"] > leaf["end"])
        assert [each["id"] for each in grown["nodes"]] == [leaf["id"]]
        branch = {"input": "or dogs", "previous_response_id": first, "max_output_tokens": 16, "cache_salt": "pictures"}
        reciting.post("/v1/responses", branch).raise_for_status()
        forked = until(told, lambda view: len(view["nodes"]) == 3)
        stem = forked["nodes"][0]
        assert (stem["shared"], stem["conversation"], stem["end"] > 256) == (True, None, True)
        assert {each["parent"] for each in forked["nodes"][1:]} == {stem["id"]}
        reciting.post("/admin/flush", {}).raise_for_status()
        emptied = until(told, lambda view: not view["nodes"])
        assert emptied["device"]["given_back_bytes"] >= sum(each["bytes"] for each in forked["nodes"]) - (2 << 20)


def until(told: Iterator[dict[str, Any]], true: Any) -> dict[str, Any]:
    return next(view for view in told if view["type"] == "memory" and true(view))


def test_an_engine_that_dies_is_missed_and_seen_again_by_the_same_reader(reciting: Serving) -> None:
    with httpx.stream("GET", f"{reciting.url}/page/memory/events", timeout=60) as reply:
        told = events(reply)
        assert next(told)["type"] == "memory"
        os.kill(reciting.engine_pid(), signal.SIGKILL)
        assert next(view for view in told if view["type"] == "error")["error"]["code"] == "not_ready"
        assert until(told, lambda _: True)["nodes"] == []
    wait_until(reciting.is_ready)
