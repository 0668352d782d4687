"""Clients that read endless answers as fast as they can: `python -m loadtest.many_readers PORT PID STREAMS SECONDS`.

Prints, as JSON, the events that arrived and the CPU time that the process PID took meanwhile; a second of warming up is
not counted.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from pathlib import Path

WARM_SECONDS = 1.0
BODY = json.dumps({"messages": [{"role": "user", "content": "Tell me."}], "stream": True, "max_tokens": 60000})
ASKED = (
    "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(BODY)}\r\n\r\n{BODY}"
).encode()


def cpu_seconds(pid: int) -> float:
    """What a process and its threads have taken so far, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Open all, then read."""
    port, pid, streams, seconds = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    selector = selectors.DefaultSelector()
    for _ in range(streams):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(ASKED)
        selector.register(connection, selectors.EVENT_READ, connection)
    read(selector, WARM_SECONDS)
    began, cpu = time.perf_counter(), cpu_seconds(pid)
    events = read(selector, seconds)
    took = time.perf_counter() - began
    print(json.dumps({"events": events, "seconds": took, "cpu": cpu_seconds(pid) - cpu}))


def read(selector: selectors.BaseSelector, seconds: float) -> int:
    """Events that arrive in so many seconds."""
    events, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for key, _ in selector.select(0.1):
            events += key.data.recv(1 << 16).count(b"data: ")
    return events


if __name__ == "__main__":
    main()
