"""Reading a response's server-sent events: text as it comes, then what it cost."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import msgspec


class AnswerFailed(Exception):
    """The server refused what was asked, or ended an answer with an error; its own sentence."""


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    input_tokens: int
    output_tokens: int
    input_tokens_details: _Details


class _Error(msgspec.Struct):
    message: str


class _Response(msgspec.Struct):
    id: str
    usage: _Usage | None = None
    error: _Error | None = None


class _Event(msgspec.Struct):
    """Of all the kinds there are, what a terminal shows. error: of an answer that is none (a status, not an event)."""

    type: str = ""
    delta: str = ""
    response: _Response | None = None
    error: _Error | None = None


_decode = msgspec.json.Decoder(_Event).decode
_ENDS = ("response.completed", "response.incomplete")


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens as the server counted them, seconds as they were here."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    first_token: float
    total: float

    def __str__(self) -> str:
        reused = f"\N{ANTICLOCKWISE OPEN CIRCLE ARROW} {self.cached_tokens} of {self.prompt_tokens} tokens reused"
        parts = [reused, f"first token {1e3 * self.first_token:.0f} ms"]
        writing = self.total - self.first_token
        if self.completion_tokens > 1 and writing > 0:
            parts.append(f"{(self.completion_tokens - 1) / writing:.0f} tok/s")
        return " \N{MIDDLE DOT} ".join(parts)


class Answer:
    """One streamed answer: iterate its text, then read `cost`."""

    def __init__(self, response: httpx.Response, began: float) -> None:
        """began: when the turn was sent, on time.perf_counter's clock."""
        self._response = response
        self._began = began
        self._first: float | None = None
        self._usage: _Usage | None = None
        self.id: str | None = None

    async def text(self) -> AsyncIterator[str]:
        """Raises AnswerFailed, also for a stream that ends without its last event."""
        if self._response.status_code != 200:
            raise AnswerFailed(reason(await self._response.aread(), self._response.status_code))
        async for line in self._response.aiter_lines():
            if not line.startswith("data: "):
                continue
            event = _decode(line.removeprefix("data: "))
            if event.type == "response.output_text.delta" and event.delta:
                self._first = self._first or time.perf_counter()
                yield event.delta
            elif self._note(event):
                return
        raise AnswerFailed("The server ended the answer half-way.")

    @property
    def seen(self) -> bool:
        """Whether any text has come."""
        return self._first is not None

    @property
    def ended(self) -> bool:
        """Whether it came to its own end."""
        return self._usage is not None

    @property
    def cost(self) -> Cost | None:
        """None before its end."""
        if self._usage is None:
            return None
        now = time.perf_counter()
        return Cost(
            prompt_tokens=self._usage.input_tokens,
            cached_tokens=self._usage.input_tokens_details.cached_tokens,
            completion_tokens=self._usage.output_tokens,
            first_token=(self._first or now) - self._began,
            total=now - self._began,
        )

    def _note(self, event: _Event) -> bool:
        """Whether this event is the last. Raises AnswerFailed."""
        if event.error is not None:
            raise AnswerFailed(event.error.message)
        if event.response is None:
            return False
        self.id = event.response.id
        if event.response.error is not None:
            raise AnswerFailed(event.response.error.message)
        if event.type in _ENDS:
            self._usage = event.response.usage
        return event.type in _ENDS


def reason(body: bytes, status: int) -> str:
    """The server's own sentence for an answer that is none, or the bare status."""
    try:
        error = _decode(body).error
    except msgspec.DecodeError:
        error = None
    return error.message if error else f"The server answered with status {status}."
