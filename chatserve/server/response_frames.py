"""The events of a streamed response, typed and numbered as OpenAI's clients expect them."""

from __future__ import annotations

from itertools import count
from typing import Final

import msgspec

from chatserve.server.errors import ApiError
from chatserve.server.item_wire import MessageItem, OutputText, item_id, item_status
from chatserve.server.response_wire import (
    Notes,
    Response,
    ResponseError,
    answer_item,
    ended_response,
    response,
)
from chatserve.server.turn import Turn
from chatserve.server.wire import FinishReason, Usage
from sessions.turns import Status

_encode = msgspec.json.Encoder().encode
_DELTA: Final = "response.output_text.delta"


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    sequence_number: int


class _OfResponse(_Event, frozen=True, kw_only=True):
    response: Response


class _OfItem(_Event, frozen=True, kw_only=True):
    item: MessageItem
    output_index: int = 0


class _InContent(_Event, frozen=True, kw_only=True):
    item_id: str
    output_index: int = 0
    content_index: int = 0


class _OfPart(_InContent, frozen=True, kw_only=True):
    part: OutputText


class _TextDone(_InContent, frozen=True, kw_only=True):
    text: str
    logprobs: tuple[()] = ()


class ResponseFrames:
    """One message with one part: what an answer is here.

    index: the answer's place among the messages of its turn.
    """

    done = b""

    def __init__(self, turn: Turn, notes: Notes, index: int) -> None:
        self._turn = turn
        self._notes = notes
        self._index = index
        self._item_id = item_id(turn.id, index)
        self._numbers = count()
        head = {"type": _DELTA, "item_id": self._item_id, "output_index": 0, "content_index": 0, "logprobs": []}
        self._before_text = b"event: " + _DELTA.encode() + b"\ndata: " + _encode(head)[:-1] + b',"delta":'

    def opening(self) -> bytes:
        """All that comes before any text."""
        begun = response(self._turn.id, self._notes, "in_progress", ())
        item = answer_item(self._turn.id, self._index, "", "in_progress")
        return b"".join(
            (
                self._of_response("response.created", begun),
                self._of_response("response.in_progress", begun),
                self._of_item("response.output_item.added", msgspec.structs.replace(item, content=())),
                self._of_part("response.content_part.added", ""),
            )
        )

    def text(self, text: str) -> bytes:
        """Only the text and its number change from one event to the next."""
        number = str(next(self._numbers)).encode()
        return b"".join((self._before_text, _encode(text), b',"sequence_number":', number, b"}\n\n"))

    def ending(self, _reason: FinishReason | None) -> bytes:
        status = self._turn.outcome
        notes = self._notes.with_usage(self._turn.usage)
        ended = ended_response(self._turn.id, notes, self._index, self._turn.text, status)
        kind = "response.completed" if status == "completed" else "response.incomplete"
        return self._closing(status) + self._of_response(kind, ended)

    def failure(self, error: ApiError) -> bytes:
        item = answer_item(self._turn.id, self._index, self._turn.text, "incomplete")
        notes = self._notes.with_usage(self._turn.usage)
        failed = response(self._turn.id, notes, "failed", (item,), error=ResponseError.of(error))
        return self._closing("failed") + self._of_response("response.failed", failed)

    def usage(self, _usage: Usage) -> None:
        """It is in the last event."""

    def _closing(self, status: Status) -> bytes:
        """The ends of the part and of the message, whatever ended them."""
        text = self._turn.text
        kind = "response.output_text.done"
        done = _TextDone(type=kind, sequence_number=next(self._numbers), item_id=self._item_id, text=text)
        item = answer_item(self._turn.id, self._index, text, item_status(status))
        return b"".join(
            (
                _event(done),
                self._of_part("response.content_part.done", text),
                self._of_item("response.output_item.done", item),
            )
        )

    def _of_response(self, kind: str, value: Response) -> bytes:
        return _event(_OfResponse(type=kind, sequence_number=next(self._numbers), response=value))

    def _of_item(self, kind: str, item: MessageItem) -> bytes:
        return _event(_OfItem(type=kind, sequence_number=next(self._numbers), item=item))

    def _of_part(self, kind: str, text: str) -> bytes:
        part = OutputText(text)
        return _event(_OfPart(type=kind, sequence_number=next(self._numbers), item_id=self._item_id, part=part))


def _event(value: _Event) -> bytes:
    return b"event: " + value.type.encode() + b"\ndata: " + _encode(value) + b"\n\n"
