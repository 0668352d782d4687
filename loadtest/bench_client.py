"""How far `chatserve bench` is from the truth, and what it takes itself: 200 streams of 20 tokens a second.

    python -m loadtest.bench_client

The server is a script in a process of its own that notes when it really sent each event; turns are matched one by one.
CPU time is in user and system mode: of the whole program, with its start and its tables, and of its streams alone for
each event.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from chatserve.bench.record import Record
from chatserve.bench.statistics import percentile
from chatserve.bench.texts import Generated
from chatserve.bench.workload import Held
from loadtest.report import keep, options
from tests.bench.scripted import Truth, answers, program, truths_of

FIRST, BETWEEN = 0.5, 0.05
STREAMS, SECONDS = 200, 20
LENGTH = "100:50"
"""Tokens of an answer: they differ, so that the streams do not end all at once."""
WARM_UP = 2.0
"""Seconds: the first turns begin all at once, and a server with one thread is late for most of them."""


@dataclass(frozen=True, slots=True)
class Bill:
    """cpu: seconds, of all processes of the client.  wall: seconds that it ran."""

    cpu: float
    wall: float


def main() -> int:
    """Measure, match, keep; the exit status is 1 when anything failed."""
    parser = options(__doc__, "bench_client")
    parser.add_argument("--streams", type=int, default=STREAMS)
    chosen = parser.parse_args()
    with program("--first", str(FIRST), "--between", str(BETWEEN)) as url, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.json"
        bill = bench(url, file, chosen.streams)
        record = msgspec.json.decode(file.read_bytes(), type=Record)
        found = figures(record, answers(truths_of(url)), bill, chosen.streams)
    keep(chosen.out, {"streams": chosen.streams, "wanted_tokens_a_second": chosen.streams / BETWEEN, **found})
    return 1 if found["failed"] else 0


def bench(url: str, file: Path, streams: int) -> Bill:
    """The command as anybody would type it."""
    load = ["--concurrency", str(streams), "--seconds", str(SECONDS), "--warm-up", str(WARM_UP)]
    talk = ["--answer", LENGTH, "--seed", "1", "--json", str(file)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "chatserve", "bench", url, *load, *talk], check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Bill(cpu, time.perf_counter() - began)


def figures(record: Record, truths: Sequence[Truth], bill: Bill, streams: int) -> dict[str, Any]:
    """What was measured beside what was true, of the turns that count."""
    (run,) = record.runs
    held, true = Held(record.terms.workload, Generated()), {said(truth): truth for truth in truths}
    plans = {number: held.plan(number) for number in {turn.conversation for turn in run.turns}}
    pairs = [
        (turn, true[plans[turn.conversation].turns[turn.turn].message])
        for turn in run.turns
        if turn.whole and not turn.warm
    ]
    events = sum(turn.events for turn in run.turns)
    return {
        "turns": len(pairs),
        "failed": run.summary.failed,
        "ttft_ms": beside([(turn.ttft or 0.0, truth.ttft) for turn, truth in pairs]),
        "tpot_ms": beside([(turn.tpot or 0.0, truth.tpot) for turn, truth in pairs]),
        "output_tokens_a_second": round(run.summary.output_rate),
        "client_cpu_of_a_core": round(bill.cpu / bill.wall, 3),
        "client_cpu_us_an_event": round(1e6 * run.client.cpu / events, 1),
        "client_cpu_of_a_core_at_the_wanted_rate": round(run.client.cpu / events * streams / BETWEEN, 3),
        "client_lag_p99_ms": round(1e3 * run.client.lag, 2),
    }


def beside(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Medians and 99th percentiles of (measured, true), and how far single turns are off: as a share of the truth."""
    measured, true = [each for each, _ in pairs], [each for _, each in pairs]
    off = [abs(ours / theirs - 1) for ours, theirs in pairs]
    return {
        "measured_p50": milli(measured, 50),
        "true_p50": milli(true, 50),
        "measured_p99": milli(measured, 99),
        "true_p99": milli(true, 99),
        "off_p50": round(percentile(off, 50) or 0.0, 5),
        "off_p99": round(percentile(off, 99) or 0.0, 5),
        "off_most": round(max(off, default=0.0), 5),
    }


def milli(seconds: Sequence[float], percent: float) -> float:
    return round(1e3 * (percentile(seconds, percent) or 0.0), 3)


def said(truth: Truth) -> str:
    """The last thing its user said: no two say the same."""
    return str(truth.body["messages"][-1]["content"])


if __name__ == "__main__":
    sys.exit(main())
