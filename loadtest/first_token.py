"""What a turn costs before its first token, the engine left out: what has answered at once stands in its place.

One stream after the other on one connection, from the request's last byte to the first event with text. The history
is sent again as text, or kept by the server under a conversation's name.
"""

from __future__ import annotations

import json
import socket
import statistics
import time
from typing import Any, Self

from chatserve.bench.statistics import percentile
from chatserve.bench.words import WORDS
from loadtest.one_worker import Worker

QUESTION = 30
TURNS = 8
"""Of the history, in equal parts."""
TEXT = (b'"content":" ', b'"type":"response.output_text.delta"')
ENDS = (b"[DONE]", b'"type":"response.completed"', b'"type":"response.incomplete"')
CHAT, RESPONSES, CONVERSATIONS = "/v1/chat/completions", "/v1/responses", "/v1/conversations"


def words(seed: int, count: int) -> str:
    """Text of so many tokens; other words for another seed."""
    return " ".join(WORDS[(seed * 7919 + place * 31) % len(WORDS)] for place in range(count))


class Caller:
    """One connection, one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def whole(self, path: str, fields: dict[str, Any]) -> dict[str, Any]:
        """An answer that is not streamed. Raises RuntimeError for a status that is not 200."""
        self._send(path, fields)
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._receive()
        head, _, body = data.partition(b"\r\n\r\n")
        if b" 200 " not in head.splitlines()[0]:
            raise RuntimeError(f"{path}: {data[:300]!r}")
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        while len(body) < length:
            body += self._receive()
        found: dict[str, Any] = json.loads(body)
        return found

    def first_text(self, path: str, fields: dict[str, Any]) -> float:
        """Seconds to the first event with text; the stream is read to its end."""
        self._send(path, {**fields, "stream": True})
        sent = time.perf_counter()
        data, first = b"", 0.0
        while not data.endswith(b"0\r\n\r\n"):
            data += self._receive()
            if not first and any(mark in data for mark in TEXT):
                first = time.perf_counter() - sent
        if not first or not any(mark in data for mark in ENDS):
            raise RuntimeError(f"{path}: {data[:300]!r}")
        return first

    def _send(self, path: str, fields: dict[str, Any]) -> None:
        body = json.dumps(fields).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)

    def _receive(self) -> bytes:
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data


def stateless(caller: Caller, history: int, turns: int) -> tuple[int, list[float]]:
    """Last turns after one history, each with the whole of it as text. The history's tokens, and seconds."""
    messages: list[dict[str, str]] = []
    for turn in range(TURNS):
        messages.append({"role": "user", "content": words(history + turn, history // TURNS)})
        found = caller.whole(CHAT, {"messages": messages, "max_tokens": 1})
        messages.append(found["choices"][0]["message"])

    def ask(turn: int) -> dict[str, Any]:
        return {
            "messages": [*messages, {"role": "user", "content": f"{turn} {words(turn, QUESTION)}"}],
            "max_tokens": 2,
        }

    tokens = caller.whole(CHAT, ask(-1))["usage"]["prompt_tokens"]
    return tokens, [caller.first_text(CHAT, ask(turn)) for turn in range(turns)]


def stateful(caller: Caller, history: int, turns: int) -> tuple[int, list[float]]:
    """Next turns of kept conversations: a few of each, then another one, so that none grows far beyond its history."""
    tokens, seconds = 0, list[float]()
    while len(seconds) < turns:
        conversation = caller.whole(CONVERSATIONS, {})["id"]

        def ask(content: str, name: str = conversation) -> dict[str, Any]:
            return {"conversation": name, "input": content, "max_output_tokens": 16}

        for turn in range(TURNS):
            caller.whole(RESPONSES, ask(words(history + turn, history // TURNS)))
        tokens = caller.whole(RESPONSES, ask("Hello"))["usage"]["input_tokens"]
        seconds += [caller.first_text(RESPONSES, ask(f"{turn} {words(turn, QUESTION)}")) for turn in range(TURNS)]
    return tokens, seconds


def first_token(serving: Worker, histories: tuple[int, ...], turns: int) -> list[dict[str, Any]]:
    """One row for each way and length."""
    rows = []
    for name, ask in (("history sent again", stateless), ("history kept", stateful)):
        for history in histories:
            with Caller(serving.port) as caller:
                tokens, seconds = ask(caller, history, turns)
            rows.append(
                {
                    "mode": name,
                    "history_tokens": tokens,
                    "ttft_ms_p10": round(1e3 * (percentile(seconds, 10) or 0.0), 2),
                    "ttft_ms_p50": round(1e3 * statistics.median(seconds), 2),
                    "ttft_ms_p90": round(1e3 * (percentile(seconds, 90) or 0.0), 2),
                }
            )
    return rows
