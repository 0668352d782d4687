"""A server of our own for a benchmark: started on a free port, stopped at the end."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx


@dataclass(frozen=True)
class Answered:
    """One streamed answer. ttft: seconds to the first text; prompt, cached, completion: tokens, as usage has them."""

    text: str
    ttft: float
    seconds: float
    prompt: int
    cached: int
    completion: int


class Server:
    """url, and the process ids of what serves there."""

    def __init__(self, url: str, process: subprocess.Popen[bytes]) -> None:
        self.url = url
        self.process = process
        self.http = httpx.Client(base_url=url, timeout=300)

    def engine_pid(self) -> int:
        """The engine's process: the server's only child."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def kv_bytes(self) -> int:
        """KV memory the engine holds, as the kernel counts the pages of its memfd."""
        total = 0
        for file in Path(f"/proc/{self.engine_pid()}/fd").iterdir():
            if "memfd:vtensor" in str(file.readlink()):
                total += file.stat().st_blocks * 512
        return total

    def chat(self, messages: list[dict[str, str]], **fields: Any) -> Answered:
        """Ask over SSE and read to the end mark."""
        body = {
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0,
            **fields,
        }
        began = time.perf_counter()
        ttft = 0.0
        parts: list[str] = []
        usage: dict[str, Any] = {}
        with self.http.stream("POST", "/v1/chat/completions", json=body) as response:
            response.raise_for_status()
            for line in response.iter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                event = json.loads(line[6:])
                usage = event.get("usage") or usage
                for choice in event["choices"]:
                    text = choice["delta"].get("content")
                    if text:
                        ttft = ttft or time.perf_counter() - began
                        parts.append(text)
        return Answered(
            text="".join(parts),
            ttft=ttft,
            seconds=time.perf_counter() - began,
            prompt=usage["prompt_tokens"],
            cached=usage["prompt_tokens_details"]["cached_tokens"],
            completion=usage["completion_tokens"],
        )

    def stats(self) -> dict[str, int]:
        """The engine's own figures."""
        return dict(self.http.get("/admin/stats").json())


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(port: int, *arguments: str) -> Iterator[Server]:
    """`chatserve serve` until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "chatserve", "serve", *arguments, "--port", str(port)]
        command += ["--sessions", f"{folder}/sessions.sqlite3", "--log-level", "warning"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            server = Server(f"http://127.0.0.1:{port}", process)
            try:
                wait_until_ready(server)
                yield server
            finally:
                process.terminate()
                process.wait(60)


def wait_until_ready(server: Server) -> None:
    """Raises AssertionError when it ends instead, or takes too long."""
    deadline = time.monotonic() + 120
    while True:
        assert server.process.poll() is None, "the server ended before it was ready"
        assert time.monotonic() < deadline, "the server was not ready in time"
        try:
            if server.http.get("/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
