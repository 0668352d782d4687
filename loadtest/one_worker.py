"""One API process on a real port and, in a process of its own, whatever stands for its engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from chatserve.server.binding import bind
from chatserve.server.control import Api, EngineAt, WorkerStart
from chatserve.server.meters import Meters
from chatserve.server.tally import Tally

PATIENCE = 120.0
"""Seconds that an engine gets to end by itself."""


def nothing_wrong(said: bytes) -> None:
    """Raises RuntimeError when the engine's books did not balance at its end."""
    wrong = json.loads(said or b"{}").get("audit")
    if wrong:
        raise RuntimeError(f"the engine's audit failed: {wrong}")


@dataclass(frozen=True)
class Worker:
    """Of the API process: its port and its id. engine: the engine's process id."""

    port: int
    pid: int
    engine: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def cpu_parts(pid: int) -> tuple[float, float]:
    """Seconds that a process and its threads have taken so far, in user and in system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    return int(fields[11]) / ticks, int(fields[12]) / ticks


def cpu_seconds(pid: int) -> float:
    """Both together."""
    return sum(cpu_parts(pid))


def resident_bytes(pid: int) -> int:
    """Memory that a process has written to, in RAM now. A page counts once, at however many addresses it is mapped;
    files that are only read are the system's cache.
    """
    lines = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines())
    return sum(int(line[1]) << 10 for line in lines if line[0] in ("Pss_Anon:", "Pss_Shmem:"))


@contextmanager
def one_worker(
    model: str,
    engine: Callable[[str], Sequence[str]],
    *,
    profile: Path | None = None,
    ended: Callable[[bytes], None] = nothing_wrong,
) -> Iterator[Worker]:
    """Both, ready; they end with the block, the API process first.

    engine: the engine's command, for the endpoint where it is to listen; its standard input is closed at the end.
    profile: where the API process's profile is written, if anywhere.
    ended: told what the engine's process has printed, when that has ended; by default its audit must be clean.
    Raises RuntimeError for an engine that fails.
    """
    listening, tally, meters = bind("127.0.0.1", 0), Tally.share(1), Meters.share()
    with tempfile.TemporaryDirectory() as folder:
        endpoint = f"ipc://{folder}/engine"
        start = WorkerStart(
            api=Api(source=model, name="bench", sessions=f"{folder}/sessions", history_ttl=86400.0, drain=1.0),
            client="worker",
            row=0,
            rows=1,
            listening=listening.fileno(),
            tally=tally,
            meters=meters,
            log_level=30,
        )
        serving = subprocess.Popen(engine(endpoint), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process = _start(start, endpoint, profile)
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            if b"Up" not in said:
                raise RuntimeError(f"the API process does not serve: {json.dumps(said.decode())}")
            yield Worker(listening.getsockname()[1], process.pid, serving.pid)
        finally:
            _leave(process)
            printed = _end(serving)
            listening.close()
            os.close(tally)
            os.close(meters)
        ended(printed)
        if serving.returncode:
            raise RuntimeError(f"the engine ended with status {serving.returncode}")


def _start(start: WorkerStart, endpoint: str, profile: Path | None) -> subprocess.Popen[bytes]:
    profiled = ["-m", "cProfile", "-o", str(profile)] if profile else []
    process = subprocess.Popen(
        ["env", "TOKENIZERS_PARALLELISM=false", sys.executable, *profiled, "-m", "chatserve.commands.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(start.listening, start.tally, start.meters),
    )
    assert process.stdin is not None
    process.stdin.write(msgspec.json.encode(start) + b"\n" + msgspec.json.encode(EngineAt(endpoint=endpoint)) + b"\n")
    process.stdin.flush()
    return process


def _leave(process: subprocess.Popen[bytes]) -> None:
    """Twice is at once."""
    process.terminate()
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _end(engine: subprocess.Popen[bytes]) -> bytes:
    """All that it printed."""
    try:
        return engine.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        engine.kill()
        engine.wait()
        return b""
