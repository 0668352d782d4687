"""Clients that read endless answers, nine of ten as fast as they can, one of ten slowly.

    python -m loadtest.many_readers PORT STREAMS SECONDS PID...

Prints, as JSON, what came to each kind, the gaps between events of the fast ones, and the CPU time (user, system) that
each process took meanwhile, this one last. Begins to count when every fast stream has had text, and a second of warming
up is over. Every token of the answers is one word with a space before it, so that tokens are counted by their spaces.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import time
from array import array
from dataclasses import dataclass, field

from chatserve.bench.statistics import percentile
from loadtest.one_worker import cpu_parts

WARM_SECONDS = 1.0
START_SECONDS = 60.0
SLOW_OF = 10
"""One of so many reads slowly."""
SLOW_EVERY, SLOW_BYTES = 0.5, 1024
"""What a slow reader takes, and how often: some five tokens a second."""
BODY = json.dumps(
    {
        "messages": [{"role": "user", "content": "Tell me."}],
        "stream": True,
        "max_tokens": 60_000,
        "ignore_eos": True,
        "stop": ["<a string that never comes>"],
    }
)
ASKED = (
    "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(BODY)}\r\n\r\n{BODY}"
).encode()
EVENT, TEXT = b"data: ", b'"content":" '


@dataclass
class Reader:
    """One stream: when text came last, and since when it is counted."""

    socket: socket.socket
    last: float = 0.0


@dataclass
class Counted:
    """gaps: seconds; an event that is read together with others counts as a gap of none."""

    events: int = 0
    tokens: int = 0
    gaps: array[float] = field(default_factory=lambda: array("d"))

    def take(self, data: bytes) -> int:
        """Events with text among the data."""
        events = data.count(TEXT)
        self.events += events
        self.tokens += data.count(b" ") - data.count(EVENT)
        return events


def opened(port: int, streams: int) -> tuple[list[Reader], list[Reader]]:
    """Fast readers and slow ones, all asked."""
    fast, slow = list[Reader](), list[Reader]()
    for index in range(streams):
        kind = slow if index % SLOW_OF == SLOW_OF - 1 else fast
        connection = socket.socket()
        if kind is slow:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", port))
        connection.sendall(ASKED)
        connection.setblocking(False)
        kind.append(Reader(connection))
    return fast, slow


class Crowd:
    """Reads all of them in one thread."""

    def __init__(self, fast: list[Reader], slow: list[Reader]) -> None:
        self._selector = selectors.DefaultSelector()
        self._slow, self._slow_due = slow, 0.0
        self.quick, self.late = Counted(), Counted()
        self._silent = len(fast)
        for reader in fast:
            self._selector.register(reader.socket, selectors.EVENT_READ, reader)

    def warm_up(self) -> None:
        """Raises TimeoutError when a fast stream stays silent."""
        deadline = time.perf_counter() + START_SECONDS
        while self._silent:
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{self._silent} streams had no text within {START_SECONDS:g} s")
            self.read(0.1)
        self.read(WARM_SECONDS)
        self.quick, self.late = Counted(), Counted()

    def read(self, seconds: float) -> None:
        """What arrives in so many seconds."""
        now = time.perf_counter()
        end = now + seconds
        while now < end:
            for key, _ in self._selector.select(0.05):
                self._take(key.data)
            now = time.perf_counter()
            if now >= self._slow_due:
                self._slow_due = now + SLOW_EVERY
                for reader in self._slow:
                    self._take_little(reader)

    def _take(self, reader: Reader) -> None:
        data = reader.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("a stream ended")
        events = self.quick.take(data)
        if not events:
            return
        now = time.perf_counter()
        if reader.last:
            self.quick.gaps.append(now - reader.last)
            self.quick.gaps.extend([0.0] * (events - 1))
        else:
            self._silent -= 1
        reader.last = now

    def _take_little(self, reader: Reader) -> None:
        try:
            self.late.take(reader.socket.recv(SLOW_BYTES))
        except BlockingIOError:
            return


def _since(before: tuple[float, float], now: tuple[float, float]) -> tuple[float, float]:
    return now[0] - before[0], now[1] - before[1]


def main() -> None:
    """Open all, then read."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("streams", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("pids", type=int, nargs="*")
    options = parser.parse_args()
    pids = [*options.pids, os.getpid()]
    fast, slow = opened(options.port, options.streams)
    crowd = Crowd(fast, slow)
    crowd.warm_up()
    began, cpu = time.perf_counter(), [cpu_parts(pid) for pid in pids]
    crowd.read(options.seconds)
    took = time.perf_counter() - began
    quick, late = crowd.quick, crowd.late
    figures = {
        "seconds": took,
        "fast": {"streams": len(fast), "events": quick.events, "tokens": quick.tokens},
        "slow": {"streams": len(slow), "events": late.events, "tokens": late.tokens},
        "gap_ms": [round(1e3 * (percentile(quick.gaps, each) or 0.0), 2) for each in (50, 99, 99.9, 100)],
        "cpu": [_since(before, cpu_parts(pid)) for pid, before in zip(pids, cpu, strict=True)],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
