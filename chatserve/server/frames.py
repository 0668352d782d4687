"""The events of a streamed answer, for each endpoint."""

from __future__ import annotations

from typing import Final

import msgspec

from chatserve.server.errors import ApiError, error_body
from chatserve.server.turn import Turn
from chatserve.server.wire import (
    ChatChunk,
    ChatChunkChoice,
    ChatDelta,
    FinishReason,
    TextChoice,
    TextCompletion,
    Usage,
)

_encode = msgspec.json.Encoder().encode
_DONE: Final = b"data: [DONE]\n\n"
_PLACE: Final = "\ue000\ue001"
"""Stands where a text comes. It is looked for last in the chunk, after all that anybody may have chosen."""


def event(value: msgspec.Struct) -> bytes:
    """A value as an event; JSON escapes line ends."""
    return b"data: " + _encode(value) + b"\n\n"


class TextEvent:
    """The event of a text, of which only that text changes: everything around it is encoded once an answer."""

    def __init__(self, chunk: ChatChunk | TextCompletion) -> None:
        """chunk: with _PLACE as its text."""
        self._before, _, self._after = event(chunk).rpartition(_encode(_PLACE))

    def with_text(self, text: str) -> bytes:
        return b"".join((self._before, _encode(text), self._after))


class ChatFrames:
    """The role comes once, first; every chunk carries the answer's one id and time."""

    done = _DONE

    def __init__(self, turn: Turn, model: str, *, include_usage: bool) -> None:
        self._id = f"chatcmpl-{turn.id}"
        self._created = turn.created
        self._model = model
        self._include_usage = include_usage
        self.text = TextEvent(self._chunk(ChatDelta(content=_PLACE), None)).with_text

    def opening(self) -> bytes:
        return event(self._chunk(ChatDelta(role="assistant", content=""), None))

    def ending(self, reason: FinishReason | None) -> bytes:
        return event(self._chunk(ChatDelta(), reason))

    def failure(self, error: ApiError) -> bytes:
        return event(error_body(error))

    def usage(self, usage: Usage) -> bytes | None:
        if not self._include_usage:
            return None
        return event(ChatChunk(id=self._id, created=self._created, model=self._model, choices=(), usage=usage))

    def _chunk(self, delta: ChatDelta, reason: FinishReason | None) -> ChatChunk:
        return ChatChunk(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=(ChatChunkChoice(delta=delta, finish_reason=reason),),
            usage=None if self._include_usage else msgspec.UNSET,
        )


class TextFrames:
    """The older endpoint's chunks: text instead of a delta, and no role."""

    done = _DONE

    def __init__(self, turn: Turn, model: str, *, include_usage: bool) -> None:
        self._id = f"cmpl-{turn.id}"
        self._created = turn.created
        self._model = model
        self._include_usage = include_usage
        self.text = TextEvent(self._chunk(_PLACE, None)).with_text

    def opening(self) -> None:
        return None

    def ending(self, reason: FinishReason | None) -> bytes:
        return event(self._chunk("", reason))

    def failure(self, error: ApiError) -> bytes:
        return event(error_body(error))

    def usage(self, usage: Usage) -> bytes | None:
        if not self._include_usage:
            return None
        return event(TextCompletion(id=self._id, created=self._created, model=self._model, choices=(), usage=usage))

    def _chunk(self, text: str, reason: FinishReason | None) -> TextCompletion:
        return TextCompletion(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=(TextChoice(text=text, finish_reason=reason),),
            usage=None if self._include_usage else msgspec.UNSET,
        )
