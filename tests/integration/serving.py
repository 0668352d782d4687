"""The product as its users start it: `chatserve serve` in a process of its own, on a free port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI

from loadtest.server import free_port

START_SECONDS = 90.0
CHAT = "/v1/chat/completions"
WIDE = "wide" * 512
"""A model's name. Every event repeats it, so that a reader who takes nothing is felt after a hundred of them."""


def wait_until(true: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"it did not come true within {seconds:g} s"
        time.sleep(0.02)


async def until(true: Callable[[], bool], seconds: float = 5.0) -> None:
    """`wait_until`, for a test that has streams of its own open."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"it did not come true within {seconds:g} s"
        await asyncio.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def command_of(pid: int) -> bytes:
    """A process's command line; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: its text, why it ended, and tokens as usage has them."""

    text: str
    finish: str
    prompt: int
    cached: int
    completion: int

    @property
    def known(self) -> int:
        """Tokens that the next turn begins with."""
        return self.prompt + self.completion


@dataclass(frozen=True, slots=True)
class Serving:
    """One server process, its address, and where its output goes."""

    process: subprocess.Popen[bytes]
    port: int
    output: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def openai(self) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=60)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=10)

    def post(self, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
        return httpx.post(self.url + path, json=body, headers=headers, timeout=60)

    def ask(self, content: str, **fields: Any) -> Answer:
        """One question in one piece, greedily; `messages` in the fields takes its place."""
        body = {"messages": [{"role": "user", "content": content}], "temperature": 0} | fields
        reply = self.post(CHAT, body)
        assert reply.status_code == 200, reply.text
        found = reply.json()
        choice, usage = found["choices"][0], found["usage"]
        return Answer(
            choice["message"]["content"],
            choice["finish_reason"],
            usage["prompt_tokens"],
            usage["prompt_tokens_details"]["cached_tokens"],
            usage["completion_tokens"],
        )

    def stats(self) -> dict[str, int]:
        return dict(self.get("/admin/stats").json())

    def idle(self) -> bool:
        stats = self.stats()
        return not (stats["running"] or stats["waiting"] or stats["slots_in_use"])

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.output.read_text()
        with contextlib.suppress(httpx.TransportError):
            return self.get("/ready").status_code == 200
        return False

    def engine_pid(self) -> int:
        """The engine's: the only child there is, but for workers."""
        engines = sorted(set(self.children()) - set(self.worker_pids()))
        assert len(engines) == 1, f"the server's children are {self.children()}"
        return engines[0]

    def worker_pids(self) -> list[int]:
        """Of those processes that talk to clients where there are several."""
        return [pid for pid in self.children() if b"chatserve.commands.worker" in command_of(pid)]

    def children(self) -> list[int]:
        """Process ids of all that it has started and that have not ended."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def kv_bytes(self) -> int:
        """KV memory, as the kernel counts the pages of the engine's memfd."""
        total = 0
        for file in Path(f"/proc/{self.engine_pid()}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                if "memfd:vtensor" in str(file.readlink()):
                    total += file.stat().st_blocks * 512
        return total

    def resident_bytes(self) -> int:
        """The server's own memory, without its engine's."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def told(self, number: signal.Signals, seconds: float) -> int:
        """Send a signal; the exit status, which must come in time."""
        self.process.send_signal(number)
        return self.process.wait(seconds)


def start(*arguments: str, folder: Path, port: int | None = None, sessions: str | None = None) -> Serving:
    """Started, not yet ready; conversations are kept in the folder, unless another place for them is given."""
    port = port or free_port()
    sessions = sessions or str(folder / "sessions.sqlite3")
    output = folder / f"output-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "chatserve", "serve", *arguments, "--port", str(port)]
    with output.open("wb") as file:
        process = subprocess.Popen([*command, "--sessions", sessions], stdout=file, stderr=subprocess.STDOUT)
    return Serving(process, port, output)


@contextlib.contextmanager
def serving(*arguments: str, folder: Path, port: int | None = None, sessions: str | None = None) -> Iterator[Serving]:
    """Ready, and gone at the end."""
    server = start(*arguments, folder=folder, port=port, sessions=sessions)
    try:
        wait_until(server.is_ready, START_SECONDS)
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()


def told_by(events: list[bytes]) -> tuple[str, dict[str, Any] | None]:
    """Of a stream's events: all text, and the error that ended it. Every data line must be JSON or the end mark."""
    text, errors = [], []
    for line in b"".join(events).splitlines():
        if not line or line.startswith(b":") or line == b"data: [DONE]":
            continue
        assert line.startswith(b"data: {"), line
        event = json.loads(line[6:])
        text += [choice["delta"].get("content", "") for choice in event.get("choices", [])]
        errors += [event["error"]] if "error" in event else []
    assert len(errors) <= 1
    if errors:
        assert b'"error"' in events[-1], "nothing comes after an error"
    return "".join(text), errors[0] if errors else None
