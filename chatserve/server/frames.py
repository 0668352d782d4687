"""The events of a streamed answer, for each endpoint."""

from __future__ import annotations

import msgspec

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


class ChatFrames:
    """The role comes once, first; every chunk carries the answer's one id and time."""

    def __init__(self, turn: Turn, model: str, *, include_usage: bool) -> None:
        self._id = f"chatcmpl-{turn.id}"
        self._created = turn.created
        self._model = model
        self._include_usage = include_usage

    def opening(self) -> bytes:
        return self._chunk(ChatDelta(role="assistant", content=""), None)

    def text(self, text: str) -> bytes:
        return self._chunk(ChatDelta(content=text), None)

    def ending(self, reason: FinishReason) -> bytes:
        return self._chunk(ChatDelta(), reason)

    def usage(self, usage: Usage) -> bytes | None:
        if not self._include_usage:
            return None
        return _encode(ChatChunk(id=self._id, created=self._created, model=self._model, choices=(), usage=usage))

    def _chunk(self, delta: ChatDelta, reason: FinishReason | None) -> bytes:
        chunk = ChatChunk(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=(ChatChunkChoice(delta=delta, finish_reason=reason),),
            usage=None if self._include_usage else msgspec.UNSET,
        )
        return _encode(chunk)


class TextFrames:
    """The older endpoint's chunks: text instead of a delta, and no role."""

    def __init__(self, turn: Turn, model: str, *, include_usage: bool) -> None:
        self._id = f"cmpl-{turn.id}"
        self._created = turn.created
        self._model = model
        self._include_usage = include_usage

    def opening(self) -> None:
        return None

    def text(self, text: str) -> bytes:
        return self._chunk(text, None)

    def ending(self, reason: FinishReason) -> bytes:
        return self._chunk("", reason)

    def usage(self, usage: Usage) -> bytes | None:
        if not self._include_usage:
            return None
        return _encode(TextCompletion(id=self._id, created=self._created, model=self._model, choices=(), usage=usage))

    def _chunk(self, text: str, reason: FinishReason | None) -> bytes:
        chunk = TextCompletion(
            id=self._id,
            created=self._created,
            model=self._model,
            choices=(TextChoice(text=text, finish_reason=reason),),
            usage=None if self._include_usage else msgspec.UNSET,
        )
        return _encode(chunk)
