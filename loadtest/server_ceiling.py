"""What one API process can do: tokens a second, the CPU time of a token, the gaps, and a turn beside its tokens.

    python -m loadtest.server_ceiling

A real worker on a real port; the real engine's process with a model that computes nothing; and readers on sockets of
their own, a tenth of them slow, in a process of theirs. Every token passes the detokenizer and the watch for stop
strings. Then first tokens, with nothing but a stub in the engine's place. Three processes share the machine: where that
has two cores, the CPU time of the worker says more than its rate.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from chatserve.bench.words import WORDS
from chatserve.model.demo_folder import demo_path
from chatserve.text.tokenizer import Tokenizer
from loadtest.first_token import first_token
from loadtest.one_worker import one_worker
from loadtest.report import keep, options

ANSWER = "".join(f" {word}" for word in WORDS[:24])
AIMS = {"tokens_a_second": 15_000, "gap_ms_p99": 100.0, "ttft_ms": 3.0}
HISTORIES = (1_500, 6_000, 24_000)


def streaming(model: str, streams: int, steps: float, seconds: float, profile: Path | None = None) -> dict[str, Any]:
    """Tokens a second to the fast readers, what they cost, and the gaps between them."""
    tokenizer = Tokenizer.load(model)
    said = tokenizer.encode(ANSWER)

    def engine(endpoint: str) -> Sequence[str]:
        null = ["--null", str(tokenizer.vocab_size), "--steps", str(steps), "--running", str(streams)]
        return [sys.executable, "-m", "loadtest.engine_process", endpoint, *null, "--tokens", *map(str, said)]

    with one_worker(model, engine, profile=profile) as serving:
        pids = map(str, (serving.pid, serving.engine))
        command = [sys.executable, "-m", "loadtest.many_readers", str(serving.port), str(streams), str(seconds), *pids]
        read = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    fast, took = read["fast"], read["seconds"]
    worker, engine_cpu, readers = (sum(each) / took for each in read["cpu"])
    user, system = (round(1e6 * each / max(1, fast["tokens"]), 1) for each in read["cpu"][0])
    return {
        "streams": streams,
        "slow_readers": read["slow"]["streams"],
        "offered_tokens_a_second": round(fast["streams"] * steps),
        "tokens_a_second": round(fast["tokens"] / took),
        "events_a_token": round(fast["events"] / max(1, fast["tokens"]), 4),
        "gap_ms_p50_p99_p999_max": read["gap_ms"],
        "worker_cpu_share": round(worker, 3),
        "worker_cpu_us_a_token_user_and_system": [user, system],
        "engine_cpu_share": round(engine_cpu, 3),
        "readers_cpu_share": round(readers, 3),
    }


def turns(model: str, count: int, histories: tuple[int, ...] = HISTORIES) -> list[dict[str, Any]]:
    """First tokens, the engine left out."""
    tokenizer = Tokenizer.load(model)
    said = map(str, tokenizer.encode(ANSWER))

    def stub(endpoint: str) -> Sequence[str]:
        return [sys.executable, "-m", "loadtest.null_engine", endpoint, str(tokenizer.vocab_size), *said]

    with one_worker(model, stub) as serving:
        return first_token(serving, histories, count)


def main() -> None:
    """Streams at a rate that a worker should keep, then at one that it cannot, then turns."""
    parser = options(__doc__, "server_ceiling")
    parser.add_argument("--model", default=str(demo_path(Path(".models"))))
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--steps", type=float, default=67.0, help="tokens a second of each stream, where it keeps up")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--profile", type=Path, help="profile the worker of the first part into this file, and end")
    chosen = parser.parse_args()
    if chosen.profile:
        print(streaming(chosen.model, chosen.streams, chosen.steps, chosen.seconds, chosen.profile))
        return
    kept_up = streaming(chosen.model, chosen.streams, chosen.steps, chosen.seconds)
    saturated = streaming(chosen.model, chosen.streams, 3 * chosen.steps, chosen.seconds)
    first = turns(chosen.model, chosen.turns)
    met = {
        "tokens_a_second": kept_up["tokens_a_second"] >= AIMS["tokens_a_second"],
        "gap_ms_p99": kept_up["gap_ms_p50_p99_p999_max"][1] < AIMS["gap_ms_p99"],
        "ttft_ms": all(row["ttft_ms_p50"] < AIMS["ttft_ms"] for row in first[:: len(HISTORIES)]),
    }
    figures = {"aims": AIMS, "met": met, "kept_up": kept_up, "saturated": saturated, "first_token": first}
    keep(chosen.out, figures)


if __name__ == "__main__":
    main()
