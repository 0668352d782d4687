"""The product as its users start it: `chatserve serve` in a process of its own, on a free port."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from openai import OpenAI


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(true: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


@dataclass
class Serving:
    """One server process and its address."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai(self) -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=60)

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=10)

    def stats(self) -> dict[str, int]:
        return dict(self.get("/admin/stats").json())

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with contextlib.suppress(httpx.TransportError):
            return self.get("/ready").status_code == 200
        return False

    def engine_pid(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        assert len(children) == 1, f"the server's children are {children}"
        return int(children[0])

    def kv_bytes(self) -> int:
        """KV memory as the kernel counts the pages of the engine's memfd."""
        files = Path(f"/proc/{self.engine_pid()}/fd").iterdir()
        return sum(file.stat().st_blocks * 512 for file in files if "memfd:vtensor" in str(file.readlink()))

    def events(self, **body: Any) -> list[dict[str, Any]]:
        """Every JSON event of a streamed answer, to its end."""
        found = []
        with httpx.stream("POST", f"{self.url}/v1/chat/completions", json={"stream": True} | body, timeout=60) as reply:
            for line in reply.iter_lines():
                if line.startswith("data: {"):
                    found.append(json.loads(line[6:]))
        return found

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def start(*arguments: str, folder: Path, port: int | None = None) -> Serving:
    """Started, not yet ready."""
    port = port or free_port()
    log = folder / f"log-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "chatserve", "serve", *arguments, "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--sessions", str(folder / "sessions.sqlite3")], stdout=output, stderr=subprocess.STDOUT
        )
    return Serving(process, port, log)


@contextlib.contextmanager
def serving(*arguments: str, folder: Path) -> Iterator[Serving]:
    """Ready, and gone at the end."""
    server = start(*arguments, folder=folder)
    try:
        wait_until(server.is_ready, 60)
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
