"""Reading an answer's server-sent events: text as it comes, then what it cost."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import msgspec


class AnswerFailed(Exception):
    """The server refused the turn, or ended it with an error; its own sentence."""


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int
    completion_tokens: int
    prompt_tokens_details: _Details | None = None


class _Error(msgspec.Struct):
    message: str


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _Error | None = None


_decode = msgspec.json.Decoder(_Chunk).decode


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

    async def text(self) -> AsyncIterator[str]:
        """Raises AnswerFailed, also for a stream that ends without its end mark."""
        if self._response.status_code != 200:
            raise AnswerFailed(_reason(await self._response.aread(), self._response.status_code))
        async for line in self._response.aiter_lines():
            if line == "data: [DONE]":
                return
            if line.startswith("data: "):
                text = self._note(_decode(line.removeprefix("data: ")))
                if text:
                    yield text
        raise AnswerFailed("The server ended the answer half-way.")

    @property
    def seen(self) -> bool:
        """Whether any text has come."""
        return self._first is not None

    @property
    def cost(self) -> Cost | None:
        """None when the server did not say."""
        if self._usage is None:
            return None
        now = time.perf_counter()
        details = self._usage.prompt_tokens_details or _Details()
        return Cost(
            prompt_tokens=self._usage.prompt_tokens,
            cached_tokens=details.cached_tokens,
            completion_tokens=self._usage.completion_tokens,
            first_token=(self._first or now) - self._began,
            total=now - self._began,
        )

    def _note(self, chunk: _Chunk) -> str:
        if chunk.error is not None:
            raise AnswerFailed(chunk.error.message)
        self._usage = chunk.usage or self._usage
        text = "".join(choice.delta.content or "" for choice in chunk.choices)
        if text and self._first is None:
            self._first = time.perf_counter()
        return text


def _reason(body: bytes, status: int) -> str:
    try:
        error = _decode(body).error
    except msgspec.DecodeError:
        error = None
    return error.message if error else f"The server answered with status {status}."
