"""What the events of a streamed answer mean, in either of OpenAI's APIs."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from chatserve.bench.events import DONE
from chatserve.bench.outcome import ERROR_EVENT, NO_USAGE, NONSENSE, Usage

SHOWN: Final = 300
"""Characters of what a server said, in a message."""


class BadAnswer(Exception):
    """An answer that cannot be counted. kind: see outcome.py; the message says what was wrong with it."""

    def __init__(self, kind: str, told: str) -> None:
        super().__init__(told)
        self.kind = kind


class Meaning(msgspec.Struct, frozen=True):
    """What one event brings.  end: it is the end mark.  id: what the response is called."""

    text: str = ""
    usage: Usage | None = None
    end: bool = False
    id: str | None = None


NOTHING: Final = Meaning()
END: Final = Meaning(end=True)


class Dialect(Protocol):
    """path: where to post.  end_mark: how a whole stream ends, for a message."""

    path: str
    end_mark: str

    def read(self, name: bytes, data: bytes) -> Meaning:
        """Raises BadAnswer for an error event, and for what is no event of this API."""
        ...


class _CachedTokens(msgspec.Struct):
    cached_tokens: int | None = None


class _ChatUsage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _CachedTokens | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None


class _ChatEvent(msgspec.Struct):
    kind: str | None = msgspec.field(default=None, name="object")
    choices: list[_Choice] | None = None
    usage: _ChatUsage | None = None
    error: object = None


class Chat:
    """`/v1/chat/completions`: deltas, usage in the last chunk, [DONE]. Reasoning is text, too."""

    path = "/v1/chat/completions"
    end_mark = "[DONE]"

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(_ChatEvent).decode

    def read(self, name: bytes, data: bytes) -> Meaning:
        if data == DONE:
            return END
        try:
            event = self._decode(data)
        except msgspec.DecodeError as error:
            raise BadAnswer(NONSENSE, f"{error}: {shown(data)}") from None
        if name == b"error" or event.kind == "error" or event.error:
            raise BadAnswer(ERROR_EVENT, shown(data))
        return Meaning(text=_text_of(event.choices), usage=_usage_of(event.usage))


def _text_of(choices: list[_Choice] | None) -> str:
    delta = choices[0].delta if choices else None
    return "" if delta is None else delta.content or delta.reasoning_content or delta.reasoning or ""


def _usage_of(usage: _ChatUsage | None) -> Usage | None:
    if usage is None:
        return None
    details = usage.prompt_tokens_details
    return Usage(usage.prompt_tokens, usage.completion_tokens, details.cached_tokens if details else None)


class _ResponseUsage(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    input_tokens_details: _CachedTokens | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    usage: _ResponseUsage | None = None


class _ResponseEvent(msgspec.Struct):
    type: str = ""
    delta: object = None
    response: _Response | None = None


class Responses:
    """`/v1/responses`: typed events; the one that ends the stream holds the usage."""

    path = "/v1/responses"
    end_mark = "response.completed or response.incomplete"

    _TEXTS: Final = ("response.output_text.delta", "response.reasoning_text.delta")
    _ENDS: Final = ("response.completed", "response.incomplete")
    _ERRORS: Final = ("response.failed", "error")

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(_ResponseEvent).decode

    def read(self, name: bytes, data: bytes) -> Meaning:
        if data == DONE:  # some servers add it
            return NOTHING
        try:
            event = self._decode(data)
        except msgspec.DecodeError as error:
            raise BadAnswer(NONSENSE, f"{error}: {shown(data)}") from None
        if event.type in self._TEXTS and isinstance(event.delta, str):
            return Meaning(text=event.delta)
        if event.type in self._ERRORS or name == b"error":
            raise BadAnswer(ERROR_EVENT, shown(data))
        called = event.response.id if event.response else None
        if event.type in self._ENDS:
            return Meaning(end=True, id=called, usage=_response_usage(event.response))
        return Meaning(id=called) if called else NOTHING


def _response_usage(response: _Response | None) -> Usage:
    if response is None or response.usage is None:
        raise BadAnswer(NO_USAGE, "the last event has no usage")
    usage = response.usage
    details = usage.input_tokens_details
    return Usage(usage.input_tokens, usage.output_tokens, details.cached_tokens if details else None)


def shown(data: bytes) -> str:
    """As much of it as a message can hold."""
    text = data.decode(errors="replace")
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
