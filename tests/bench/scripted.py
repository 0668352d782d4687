"""A server that streams what a script says, when it says so, and notes when it really did; or one that lies.

    python -m tests.bench.scripted --first 0.5 --between 0.05

prints its URL, and tells what it noted at GET /truths. It speaks both of OpenAI's APIs, and keeps nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from queue import Queue
from threading import Thread
from typing import Any, cast

import httptools

LIES = (
    "",
    "dies",
    "no usage",
    "no end",
    "error",
    "short",
    "html",
    "noise",
    "silent",
    "only a role",
    "no text",
    "hangs up",
    "lingers",
)


@dataclass(frozen=True)
class Script:
    """first: seconds from a request to its first text.  between: seconds between two texts.  status: of every answer.

    text: of each event; one stands for one token.  per_event: tokens that usage counts for it.
    lie: one of LIES; "" for an honest server.
    """

    first: float = 0.0
    between: float = 0.0
    status: int = 200
    text: str = " w"
    per_event: int = 1
    lie: str = ""
    cached: int | None = 30

    def __post_init__(self) -> None:
        assert self.lie in LIES


@dataclass
class Truth:
    """What was done with one request, on the clock that all processes of a machine share.

    asked: its last byte had been read.  texts: when each event with text was written.  ended: the end mark.
    """

    path: str
    head: dict[str, str]
    body: dict[str, Any]
    asked: float
    texts: list[float] = field(default_factory=list)
    ended: float | None = None
    left: bool = False

    @property
    def ttft(self) -> float:
        return self.texts[0] - self.asked

    @property
    def tpot(self) -> float:
        assert self.ended is not None
        return (self.ended - self.texts[0]) / (len(self.texts) - 1)

    def late(self, first: float, between: float) -> list[float]:
        """How many seconds after its moment each event with text was written."""
        return [moment - self.asked - first - place * between for place, moment in enumerate(self.texts)]


@dataclass
class Scripted:
    """Where it listens, and what it did."""

    script: Script
    url: str = ""
    truths: list[Truth] = field(default_factory=list)

    def asks(self) -> list[Truth]:
        """For answers."""
        return answers(self.truths)


def answers(truths: Sequence[Truth]) -> list[Truth]:
    """Those that were asked for one."""
    return [truth for truth in truths if truth.path in ("/v1/chat/completions", "/v1/responses")]


class _Frames:
    """Either API's events, ready to be written."""

    def __init__(self, script: Script, tokens: int, *, chat: bool) -> None:
        counted = tokens * script.per_event - (script.lie == "short")
        text, role = "" if script.lie == "no text" else script.text, {"role": "assistant", "content": ""}
        if chat:
            details = None if script.cached is None else {"cached_tokens": script.cached}
            usage = {"prompt_tokens": 40, "completion_tokens": counted, "prompt_tokens_details": details}
            self.opening = _event({"choices": [{"index": 0, "delta": role}], "usage": None})
            self.text = _event({"choices": [{"index": 0, "delta": {"content": text}}], "usage": None})
            self.error = _event({"error": {"message": "the engine died", "code": 500}})
            self.usage = b"" if script.lie == "no usage" else _event({"choices": [], "usage": usage})
            self.end = _chunk(b"data: [DONE]\n\n")
            return
        told = {"input_tokens": 40, "output_tokens": counted, "input_tokens_details": {"cached_tokens": script.cached}}
        begun = {"id": "resp_1", "usage": None}
        self.opening = _event({"type": "response.created", "response": begun})
        self.text = _event({"type": "response.output_text.delta", "delta": text})
        self.error = _event({"type": "response.failed", "response": begun | {"error": {"message": "the engine died"}}})
        self.usage = b""
        ended = begun if script.lie == "no usage" else begun | {"usage": told}
        self.end = _event({"type": "response.completed", "response": ended})


class _Stream:
    """One answer, each event at its own moment on the clock: what was late once makes nothing else late."""

    def __init__(self, script: Script, truth: Truth, transport: asyncio.Transport) -> None:
        self._script = script
        self._truth = truth
        self._transport = transport
        self._chat = truth.path == "/v1/chat/completions"
        self._tokens: int = truth.body["max_tokens" if self._chat else "max_output_tokens"]
        if script.lie == "only a role":
            self._tokens = 0
        self._frames = _Frames(script, self._tokens, chat=self._chat)

    def begin(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        self._transport.write(head + self._frames.opening)
        self._later(0)

    def _later(self, token: int) -> None:
        moment = self._truth.asked + self._script.first + token * self._script.between
        loop = asyncio.get_running_loop()
        loop.call_at(loop.time() + moment - time.perf_counter(), self._write, token)

    def _write(self, token: int) -> None:
        if self._transport.is_closing():
            self._truth.left = True
            return
        if token < self._tokens:
            self._truth.texts.append(time.perf_counter())
            self._transport.write(self._frames.text)
        if self._script.lie == "dies" and token >= self._tokens // 2:
            self._transport.abort()
        elif self._script.lie == "silent":
            return
        elif token + 1 < self._tokens:
            self._later(token + 1)
        else:
            self._finish()

    def _finish(self) -> None:
        error = self._frames.error if self._script.lie == "error" else b""
        end = b"" if self._script.lie == "no end" else self._frames.end
        self._truth.ended = time.perf_counter()
        self._transport.write(
            error + self._frames.usage + end + (b"" if self._script.lie == "lingers" else b"0\r\n\r\n")
        )


class _Connection(asyncio.Protocol):
    def __init__(self, scripted: Scripted) -> None:
        self._scripted = scripted
        self._transport: asyncio.Transport | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._head: dict[str, str] = {}
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head[name.decode().lower()] = value.decode()

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        body = json.loads(self._body) if self._body else {}
        truth = Truth(self._url.decode(), self._head, body, time.perf_counter())
        self._begin()
        self._answer(truth)

    def _answer(self, truth: Truth) -> None:
        assert self._transport is not None
        script = self._scripted.script
        if truth.path == "/truths":
            _reply(self._transport, 200, [asdict(each) for each in self._scripted.truths])
            return
        self._scripted.truths.append(truth)
        if script.status != 200:
            _reply(self._transport, script.status, {"error": {"message": "not now"}})
        elif truth.path == "/v1/models":
            _reply(self._transport, 200, {"object": "list", "data": [{"id": "scripted"}]})
        elif truth.path == "/v1/conversations":
            _reply(self._transport, 200, {"id": f"conv_{len(self._scripted.truths)}"})
        elif truth.path not in ("/v1/chat/completions", "/v1/responses"):
            _reply(self._transport, 404, {"error": {"message": "no such path"}})
        elif script.lie == "html":
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n<html>\n\nhello</html>\n")
        elif script.lie == "noise":
            self._transport.write(b"\x00\x01 what?\r\n\r\n")
        elif script.lie == "hangs up":
            self._transport.abort()
        else:
            _Stream(script, truth, self._transport).begin()


def _event(value: dict[str, Any]) -> bytes:
    return _chunk(b"data: " + json.dumps(value).encode() + b"\n\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _reply(transport: asyncio.Transport, status: int, value: Any) -> None:
    body = json.dumps(value).encode()
    transport.write(b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Scripted]:
    """In this event loop."""
    scripted = Scripted(script)
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(scripted), "127.0.0.1", 0, backlog=1024)
    scripted.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield scripted
    finally:
        server.close()


@contextmanager
def served(script: Script) -> Iterator[Scripted]:
    """In a thread of its own, for a client that has none."""
    loop, left, up = asyncio.new_event_loop(), asyncio.Event(), Queue[Scripted]()

    async def serve() -> None:
        async with serving(script) as scripted:
            up.put(scripted)
            await left.wait()

    thread = Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        yield up.get(timeout=10)
    finally:
        loop.call_soon_threadsafe(left.set)
        thread.join()
        loop.close()


@contextmanager
def program(*arguments: str) -> Iterator[str]:
    """In a process of its own; its URL. What it noted is to be asked for with `truths_of`."""
    command = [sys.executable, "-m", "tests.bench.scripted", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def truths_of(url: str) -> list[Truth]:
    """What the server at `url` noted so far."""
    with urllib.request.urlopen(f"{url}/truths", timeout=10) as page:
        return [Truth(**each) for each in json.loads(page.read())]


def main() -> None:
    """Serve until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=float, default=0.0)
    parser.add_argument("--between", type=float, default=0.0)
    parser.add_argument("--lie", choices=LIES, default="")
    options = parser.parse_args()

    async def serve() -> None:
        async with serving(Script(first=options.first, between=options.between, lie=options.lie)) as scripted:
            print(scripted.url, flush=True)
            await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
