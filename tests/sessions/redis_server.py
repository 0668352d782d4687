"""A real `redis-server` on a free port with a folder of its own, which a test starts, stops and starts again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from redis import Redis


class RedisServer:
    """folder: where its data lies. Raises FileNotFoundError when no redis-server is installed."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise FileNotFoundError("redis-server is not installed: apt-get install redis-server")
        self._program = program
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *options: str) -> None:
        """Returns when it answers. options: as for redis-server."""
        assert self._process is None
        command = [self._program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--loglevel", "warning", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not self._answers():
            assert self._process.poll() is None, "redis-server ended at once"
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.01)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(10)
            self._process = None

    def pause(self) -> None:
        """Alive and silent, until `resume`."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            return self.ask("PING") == b"+PONG\r\n"
        except OSError:
            return False

    def ask(self, line: str) -> bytes:
        """The raw answer to an inline command."""
        with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.sendall(f"{line}\r\n".encode())
            return connection.recv(1 << 16)


def client(url: str) -> Redis:
    """For a look at what lies there, past the store."""
    return Redis.from_url(url, protocol=2)
