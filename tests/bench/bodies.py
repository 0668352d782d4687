"""Bodies of streamed answers, as servers write them."""

from __future__ import annotations

import json
from typing import Any

CHAT_USAGE = {"prompt_tokens": 40, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 30}}
RESPONSE_USAGE = {"input_tokens": 40, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 30}}
DONE = b"data: [DONE]\n\n"


def event(value: dict[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


def role() -> bytes:
    return event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}], "usage": None})


def text(content: str) -> bytes:
    return event({"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}], "usage": None})


def usage(**fields: Any) -> bytes:
    return event({"choices": [], "usage": CHAT_USAGE | fields})


def response_text(content: str) -> bytes:
    name = "response.output_text.delta"
    return event({"type": name, "item_id": "msg_1", "delta": content, "sequence_number": 4}, name)


def response_of(kind: str, **fields: Any) -> bytes:
    name = f"response.{kind}"
    return event({"type": name, "response": {"id": "resp_1", "usage": None} | fields}, name)
