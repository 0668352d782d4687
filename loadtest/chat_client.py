"""A chat client on a bare socket, as cheap as can be: one keep-alive connection, one turn at a time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from loadtest.answer_stream import Answer, AnswerStream, BadAnswer

CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a server listens, and the model it is asked for. timeout: seconds that one turn may take."""

    host: str
    port: int
    model: str
    timeout: float = 180.0

    @classmethod
    def parse(cls, url: str, model: str, timeout: float) -> Target:
        """Raises ValueError for a URL without a host."""
        parts = urlsplit(url)
        if parts.hostname is None:
            raise ValueError(f"{url!r} is no URL; write it as http://127.0.0.1:8000")
        return cls(parts.hostname, parts.port or 80, model, timeout)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn as its client saw it; seconds, and tokens as usage has them.

    sent: when the request was written, on the clock that all processes of a machine share.
    ttft: to the first text; where no event had any (`empty`), to the first event.  e2e: to the end mark.
    """

    conversation: int
    number: int
    sent: float
    ttft: float
    e2e: float
    largest_gap: float
    events: int
    empty: bool
    prompt: int
    completion: int
    cached: int | None

    @classmethod
    def of(cls, conversation: int, number: int, sent: float, answer: Answer) -> Turn:
        return cls(
            conversation=conversation,
            number=number,
            sent=sent,
            ttft=(answer.opened if answer.first is None else answer.first) - sent,
            e2e=answer.ended - sent,
            largest_gap=answer.largest_gap,
            events=answer.events,
            empty=answer.first is None,
            prompt=answer.usage.prompt,
            completion=answer.usage.completion,
            cached=answer.usage.cached,
        )

    @property
    def tpot(self) -> float | None:
        """Seconds a token after the first; None where there was only one."""
        return (self.e2e - self.ttft) / (self.completion - 1) if self.completion > 1 else None


class Connection(asyncio.Protocol):
    """Opened by `ask` when there is none."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._transport: asyncio.Transport | None = None
        self._stream: AnswerStream | None = None
        self._over: asyncio.Future[None] | None = None

    async def ask(self, messages: Sequence[Mapping[str, str]], answer_tokens: int) -> tuple[float, Answer]:
        """One turn of exactly so many tokens: when it was sent, and the answer.

        Raises BadAnswer, OSError, TimeoutError; the connection is closed then.
        """
        request = self._request(messages, answer_tokens)
        try:
            async with asyncio.timeout(self._target.timeout):
                if self._transport is None:
                    await asyncio.get_running_loop().create_connection(
                        lambda: self, self._target.host, self._target.port
                    )
                assert self._transport is not None
                stream = self._stream = AnswerStream()
                over = self._over = asyncio.get_running_loop().create_future()
                sent = time.perf_counter()
                self._transport.write(request)
                await over
            answer = stream.answer()
        except (BadAnswer, OSError, TimeoutError):
            self.close()
            raise
        if not stream.keep_alive:
            self.close()
        if answer.usage.completion != answer_tokens:
            raise BadAnswer(f"{answer.usage.completion} tokens came instead of {answer_tokens}")
        return sent, answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        self._transport = self._stream = self._over = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if self._stream is None or self._over is None or self._over.done():
            return
        try:
            self._stream.feed(data, now)
        except BadAnswer as error:
            self._over.set_exception(error)
            return
        if self._stream.over:
            self._over.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        if self._stream is not None and self._over is not None and not self._over.done():
            self._stream.closed()
            self._over.set_result(None)

    def _request(self, messages: Sequence[Mapping[str, str]], answer_tokens: int) -> bytes:
        fields: dict[str, Any] = {
            "model": self._target.model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": answer_tokens,
            "ignore_eos": True,
            "temperature": 0,
        }
        body = json.dumps(fields).encode()
        head = (
            f"POST {CHAT} HTTP/1.1\r\nHost: {self._target.host}:{self._target.port}\r\n"
            "Content-Type: application/json\r\nAccept: text/event-stream\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body
