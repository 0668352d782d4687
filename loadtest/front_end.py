"""What one API process can do: events a second, the CPU time of a token, and what a turn costs beside its tokens.

    python -m loadtest.front_end

A real worker on a real port, an engine that computes nothing (`null_engine`), and clients on sockets of their own, each
in a process of its own. Of the worker, CPU time is counted in user and system mode. Where all of them share two cores,
the clients and the engine take theirs from the worker: its CPU time says more than its rate.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
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
import msgspec

from chatserve.model.demo_folder import demo_path
from chatserve.server.binding import bind
from chatserve.server.control import Api, EngineAt, WorkerStart
from chatserve.server.meters import Meters
from chatserve.server.tally import Tally
from chatserve.text.tokenizer import Tokenizer
from loadtest.many_readers import cpu_seconds
from loadtest.report import keep, options

ANSWER = " Once upon a time there was a small house by the sea, and nobody knew who had built it."
TURNS, TURN_WORDS = 8, 90
TOGETHER = 8


@dataclass(frozen=True)
class Worker:
    port: int
    pid: int

    def cpu(self) -> float:
        """Seconds of CPU time so far."""
        return cpu_seconds(self.pid)


@contextmanager
def worker(model: str, steps: float, profile: Path | None = None) -> Iterator[Worker]:
    """A worker and its engine, ready; both end with the block."""
    tokenizer = Tokenizer.load(model)
    listening, tally, meters = bind("127.0.0.1", 0), Tally.share(1), Meters.share()
    with tempfile.TemporaryDirectory() as folder:
        endpoint = f"ipc://{folder}/engine"
        tokens = map(str, tokenizer.encode(ANSWER))
        command = [sys.executable, "-m", "loadtest.null_engine", endpoint, str(steps), str(tokenizer.vocab_size)]
        profiled = ["-m", "cProfile", "-o", str(profile)] if profile else []
        start = WorkerStart(
            api=Api(source=model, name="null", sessions=f"{folder}/sessions", history_ttl=86400.0, drain=1.0),
            client="worker",
            row=0,
            rows=1,
            listening=listening.fileno(),
            tally=tally,
            meters=meters,
            log_level=30,
        )
        engine = subprocess.Popen([*command, *tokens])
        process = subprocess.Popen(
            [sys.executable, *profiled, "-m", "chatserve.commands.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(listening.fileno(), tally, meters),
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(start) + b"\n")
            process.stdin.write(msgspec.json.encode(EngineAt(endpoint=endpoint)) + b"\n")
            process.stdin.flush()
            process.stdout.readline()
            yield Worker(listening.getsockname()[1], process.pid)
        finally:
            process.terminate()
            process.terminate()  # twice: at once
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            engine.kill()
            engine.wait()
            listening.close()
            os.close(tally)
            os.close(meters)


def streaming(model: str, streams: int, steps: float, seconds: float, profile: Path | None = None) -> dict[str, float]:
    """Events a second, and what they cost."""
    with worker(model, steps, profile) as serving:
        command = [sys.executable, "-m", "loadtest.many_readers", str(serving.port), str(serving.pid), str(streams)]
        read = json.loads(subprocess.run([*command, str(seconds)], check=True, capture_output=True).stdout)
    rate, share = read["events"] / read["seconds"], read["cpu"] / read["seconds"]
    return {
        "streams": streams,
        "offered_a_second": round(streams * steps),
        "events_a_second": round(rate),
        "worker_cpu_share": round(share, 3),
        "worker_cpu_us_an_event": round(1e6 * share / rate, 1),
    }


def words(seed: int, count: int) -> str:
    """Text of about as many tokens."""
    return " ".join(ANSWER.split()[(seed * 7 + place) % 19] for place in range(count))


async def turn_costs(serving: Worker, turns: int) -> dict[str, float]:
    """Many last turns after one history, each sent as text with the whole of it."""
    messages: list[dict[str, str]] = []
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{serving.port}", timeout=20) as http:

        async def ask(content: str) -> dict[str, Any]:
            said = [*messages, {"role": "user", "content": content}]
            reply = await http.post("/v1/chat/completions", json={"messages": said, "max_tokens": 1})
            found: dict[str, Any] = reply.raise_for_status().json()
            return found

        for turn in range(TURNS):
            content = words(turn, 2 * TURN_WORDS)
            answer = (await ask(content))["choices"][0]["message"]["content"]
            messages += [{"role": "user", "content": content}, {"role": "assistant", "content": answer}]
        prompt = (await ask("Hello"))["usage"]["prompt_tokens"]
        alone, cpu = [], serving.cpu()
        for turn in range(turns):
            began = time.perf_counter()
            await ask(f"{turn} {words(turn, 48)}")
            alone.append(time.perf_counter() - began)
        one_by_one, cpu = serving.cpu() - cpu, serving.cpu()
        for turn in range(0, turns, TOGETHER):
            await asyncio.gather(*(ask(f"{turn} {each} {words(turn, 48)}") for each in range(TOGETHER)))
        together = serving.cpu() - cpu
    return {
        "turns": turns,
        "history_tokens": prompt,
        "one_by_one_worker_cpu_ms_a_turn": round(1e3 * one_by_one / turns, 2),
        "one_by_one_latency_ms_p50": round(1e3 * statistics.median(alone), 2),
        f"{TOGETHER}_at_once_worker_cpu_ms_a_turn": round(1e3 * together / turns, 2),
    }


def main() -> None:
    """Streams at a rate that a worker can keep, then at one that it cannot, then turns."""
    parser = options(__doc__, "front_end")
    parser.add_argument("--model", default=str(demo_path(Path(".models"))))
    parser.add_argument("--streams", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--profile", type=Path, help="profile the worker of the first part into this file, and end")
    chosen = parser.parse_args()
    if chosen.profile:
        print(streaming(chosen.model, chosen.streams, 200.0, chosen.seconds, chosen.profile))
        return
    figures: dict[str, Any] = {
        "kept_up": streaming(chosen.model, chosen.streams, 40.0, chosen.seconds),
        "saturated": streaming(chosen.model, chosen.streams, 200.0, chosen.seconds),
    }
    with worker(chosen.model, 2000.0) as serving:
        figures["turn"] = asyncio.run(turn_costs(serving, 320))
    keep(chosen.out, figures)


if __name__ == "__main__":
    main()
