"""The bytes of events: what is encoded once an answer is what would be encoded for each event."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

import pytest

from chatserve.server.frames import ChatFrames, TextFrames
from chatserve.server.turn import Turn

TEXTS = ["a", "", '\n\r\t"\\/\u2028\x00', "\ue000\ue001", "\U0001f600\u00e9", "data: [DONE]\n\n"]
MODELS = ["m", 'a "quoted" \ue000\ue001 name', "\ue000\ue001"]


@dataclass
class Started:
    id: str = "0" * 32
    created: int = 7


def body(event: bytes) -> Any:
    assert event.startswith(b"data: ")
    assert event.endswith(b"\n\n")
    assert b"\n" not in event[:-2]
    return json.loads(event[6:])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("usage", [False, True])
def test_a_chats_event_is_the_same_json_for_any_text_and_name(model: str, usage: bool) -> None:
    frames = ChatFrames(cast(Turn, Started()), model, include_usage=usage)
    for text in TEXTS:
        choice = {"delta": {"content": text}, "finish_reason": None, "index": 0, "logprobs": None}
        assert body(frames.text(text)) == {
            "id": f"chatcmpl-{'0' * 32}",
            "created": 7,
            "model": model,
            "object": "chat.completion.chunk",
            "choices": [choice],
        } | ({"usage": None} if usage else {})


@pytest.mark.parametrize("model", MODELS)
def test_a_completions_event_is_the_same_json_for_any_text_and_name(model: str) -> None:
    frames = TextFrames(cast(Turn, Started()), model, include_usage=False)
    for text in TEXTS:
        assert body(frames.text(text)) == {
            "id": f"cmpl-{'0' * 32}",
            "created": 7,
            "model": model,
            "object": "text_completion",
            "choices": [{"text": text, "finish_reason": None, "index": 0, "logprobs": None}],
        }
