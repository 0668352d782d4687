"""A chat server that answers as a test tells it to, at the pace a test tells it to, and notes what it really did."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Script:
    """first: seconds before the first text.  between: seconds between two tokens.

    flaw: "" for an honest answer; "dies", "no usage", "no done", "error", "short" or "refuses".
    """

    first: float = 0.0
    between: float = 0.0
    flaw: str = ""
    text: str = " w"


@dataclass
class Truth:
    """What the server did with one request, by its own clock."""

    body: dict[str, Any]
    asked: float
    first: float = 0.0
    ended: float = 0.0


@dataclass
class ScriptedChat:
    script: Script
    url: str = ""
    truths: list[Truth] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"GET"):
                    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    break
                fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
                body = json.loads(await reader.readexactly(int(fields["Content-Length"])))
                truth = Truth(body, time.perf_counter())
                self.truths.append(truth)
                if not await self._answer(writer, truth):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, truth: Truth) -> bool:
        """False when the connection is to be cut."""
        script, tokens = self.script, truth.body["max_tokens"]
        if script.flaw == "refuses":
            writer.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nfull")
            return True
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        event(writer, delta({"role": "assistant", "content": ""}))
        await asyncio.sleep(script.first)
        for token in range(tokens):
            if token:
                await asyncio.sleep(script.between)
            truth.first = truth.first or time.perf_counter()
            event(writer, delta({"content": script.text}))
            if script.flaw == "dies" and token == tokens // 2:
                return False
        if script.flaw == "error":
            event(writer, {"error": {"message": "the engine died"}})
        event(writer, delta({}, "length"))
        if script.flaw != "no usage":
            completion = tokens - (script.flaw == "short")
            details = {"cached_tokens": 30}
            usage = {"prompt_tokens": 40, "completion_tokens": completion, "prompt_tokens_details": details}
            event(writer, {"choices": [], "usage": usage})
        truth.ended = time.perf_counter()
        if script.flaw != "no done":
            chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        return True


def delta(fields: dict[str, str], reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}], "usage": None}


def event(writer: asyncio.StreamWriter, value: dict[str, Any]) -> None:
    chunk(writer, b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n")


def chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


@asynccontextmanager
async def scripted_chat(script: Script) -> AsyncIterator[ScriptedChat]:
    chat = ScriptedChat(script)
    server = await asyncio.start_server(chat.serve, "127.0.0.1", 0, limit=1 << 20)
    chat.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield chat
