"""One streamed chat answer, from its bytes and the times they came at: no sockets here.

Thousands of events a second pass through, so an event that plainly brings text and nothing else is not parsed: its text
is cut out of it. All others are parsed whole.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

TEXT = b'"content":"'
"""Cannot be found inside a JSON string, where its quotes would be escaped; nor can the other two."""
ERROR = b'"error":'
USAGE = b'"usage":{'
DONE = b"[DONE]"
ERROR_BYTES = 500


class BadAnswer(Exception):
    """An answer that cannot be counted; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the server counts them. cached: None where it does not say."""

    prompt: int
    completion: int
    cached: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. Times are the caller's clock.

    first: when the first text came; None if no event had any.  opened: when the first event came.
    ended: when the end mark came.  largest_gap: between two events with text.  events: how many had text.
    """

    text: str
    opened: float
    first: float | None
    ended: float
    largest_gap: float
    events: int
    usage: Usage


class AnswerStream:
    """Fed with a response to one request; knows when that is over, and then what it was."""

    def __init__(self) -> None:
        self.over = False
        self.keep_alive = True
        self._bytes = b""
        self._events = b""
        self._status = 0
        self._chunked = False
        self._left: int | None = None
        self._texts: list[str] = []
        self._opened: float | None = None
        self._first: float | None = None
        self._done: float | None = None
        self._last = self._gap = 0.0
        self._usage: Usage | None = None
        self._error: str | None = None

    def feed(self, data: bytes, now: float) -> None:
        """Take bytes that came at `now`. Raises BadAnswer for what is not HTTP, or no event of a chat."""
        self._bytes += data
        if not self._status and not self._head():
            return
        body = self._unchunk() if self._chunked else self._plain()
        if not body:
            return
        self._events += body
        if b"\r" in self._events:
            self._events = self._events.replace(b"\r\n", b"\n")
        if self._status == 200:
            *events, self._events = self._events.split(b"\n\n")
            for event in events:
                self._take(event, now)

    def closed(self) -> None:
        """The connection is at its end."""
        if not self.over:
            self._error = self._error or "the connection was closed inside the stream"
        self.over, self.keep_alive = True, False

    def answer(self) -> Answer:
        """Raises BadAnswer for an answer that failed, that did not come to its end, or that hides its usage."""
        if self._status not in (0, 200):
            raise BadAnswer(f"status {self._status}: {self._events[:ERROR_BYTES].decode(errors='replace')}")
        if self._error:
            raise BadAnswer(self._error)
        if self._done is None:
            raise BadAnswer("the stream ended without [DONE]")
        if self._usage is None:
            raise BadAnswer("the stream had no usage")
        return Answer(
            text="".join(self._texts),
            opened=self._done if self._opened is None else self._opened,
            first=self._first,
            ended=self._done,
            largest_gap=self._gap,
            events=len(self._texts),
            usage=self._usage,
        )

    def _head(self) -> bool:
        head, mark, rest = self._bytes.partition(b"\r\n\r\n")
        if not mark:
            return False
        self._bytes = rest
        first, *lines = head.decode("latin-1").lower().split("\r\n")
        try:
            self._status = int(first.split(" ")[1])
        except (IndexError, ValueError):
            raise BadAnswer(f"not an HTTP response: {first!r}") from None
        fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self._chunked = fields.get("transfer-encoding") == "chunked"
        self._left = int(fields["content-length"]) if "content-length" in fields else None
        self.keep_alive = fields.get("connection") != "close" and (self._chunked or self._left is not None)
        self.over = self._left == 0
        return True

    def _unchunk(self) -> bytes:
        """The whole chunks that are there."""
        data, at, body = self._bytes, 0, []
        while (line := data.find(b"\r\n", at)) >= 0:
            size = int(data[at:line].partition(b";")[0], 16)
            end = line + 2 + size
            if len(data) < end + 2:
                break
            self.over = self.over or size == 0
            body.append(data[line + 2 : end])
            at = end + 2
        self._bytes = data[at:]
        return b"".join(body)

    def _plain(self) -> bytes:
        body, self._bytes = self._bytes, b""
        if self._left is not None:
            self._left -= len(body)
            self.over = self._left <= 0
        return body

    def _take(self, event: bytes, now: float) -> None:
        for line in event.split(b"\n"):
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == DONE:
                self._done = now
                continue
            if self._opened is None:
                self._opened = now
            text = _plain_text(data) or self._parse(data)
            if text:
                self._note_text(text, now)

    def _note_text(self, text: str, now: float) -> None:
        if self._first is None:
            self._first = now
        else:
            self._gap = max(self._gap, now - self._last)
        self._last = now
        self._texts.append(text)

    def _parse(self, data: bytes) -> str:
        """What any event says; the text it brings."""
        try:
            event: dict[str, Any] = json.loads(data)
        except ValueError:
            raise BadAnswer(f"an event is not JSON: {data[:80]!r}") from None
        if event.get("error"):
            self._error = f"an error event: {str(event['error'])[:ERROR_BYTES]}"
        usage = event.get("usage")
        if usage:
            details = usage.get("prompt_tokens_details") or {}
            try:
                self._usage = Usage(usage["prompt_tokens"], usage["completion_tokens"], details.get("cached_tokens"))
            except KeyError as error:
                raise BadAnswer(f"usage lacks {error}") from None
        delta = (event.get("choices") or [{}])[0].get("delta") or {}
        return str(delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or "")


def _plain_text(data: bytes) -> str | None:
    """The text of an event that brings some without escapes, written compactly, and says nothing else; else None."""
    at = data.find(TEXT)
    if at < 0 or USAGE in data or ERROR in data:
        return None
    begin = at + len(TEXT)
    text = data[begin : data.find(b'"', begin)]
    return None if b"\\" in text else text.decode(errors="replace")
