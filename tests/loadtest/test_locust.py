"""Locust users against servers whose delays are known, and against servers that lie."""

from __future__ import annotations

import asyncio
import csv
import json
import signal
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chatserve.bench.statistics import percentile
from loadtest.users.shapes import users_at
from tests.bench.scripted import Script, Scripted, serving

ROOT = Path(__file__).parents[2]
ANSWER = 8
FIRST, BETWEEN = 0.2, 0.03


@dataclass(frozen=True)
class Ended:
    """A Locust run: its exit status, our report, and what it printed."""

    status: int
    figures: dict[str, Any]
    printed: str


async def swarm(chat: Scripted, folder: Path, *arguments: str, turns: int = 0) -> Ended:
    """Two users, until the server was asked for so many turns; 0: for as long as the arguments say."""
    command = [sys.executable, "-m", "locust", "-f", "loadtest/locustfile.py", "--host", chat.url, "--headless"]
    command += ["--users", "2", "--served-model", "m", "--answer", str(ANSWER), *arguments]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--figures",
        str(folder / "figures.json"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    reading = asyncio.create_task(process.communicate())
    while turns and len(chat.asks()) < turns and not reading.done():
        await asyncio.sleep(0.02)
    if turns:
        process.send_signal(signal.SIGTERM)
    printed, _ = await reading
    assert process.returncode is not None
    return Ended(process.returncode, json.loads((folder / "figures.json").read_text()), printed.decode())


async def test_its_figures_are_what_the_server_did(tmp_path: Path) -> None:
    """A48: headers and role come at once, and are neither the first token nor the end. Within 5 %, and on a busy
    machine within what the server, on the same machine, was late.
    """
    async with serving(Script(first=FIRST, between=BETWEEN)) as chat:
        reports = ("--csv", str(tmp_path / "locust"), "--html", str(tmp_path / "locust.html"))
        ended = await swarm(chat, tmp_path, "--turns", "3", "--slo", "ttft=10s", *reports, "--run-time", "5s")
    assert ended.status == 0
    with (tmp_path / "locust_stats.csv").open() as rows:
        counted = {(row["Type"], row["Name"]): row for row in csv.DictReader(rows)}
    latencies = ended.figures["summaries"][0]["latencies"]
    truths = [truth for truth in chat.asks() if truth.ended]
    ttft = statistics.median(truth.ttft for truth in truths)
    e2e = statistics.median(truth.ended - truth.asked for truth in truths)
    late = 1e3 * (percentile([each for truth in truths for each in truth.late(FIRST, BETWEEN)], 99) or 0.0)
    assert latencies["ttft_later"]["p50"] == pytest.approx(1e3 * ttft, rel=0.05, abs=late)
    assert latencies["e2e"]["p50"] == pytest.approx(1e3 * e2e, rel=0.05, abs=late)
    assert latencies["tpot"]["p50"] == pytest.approx(1e3 * (e2e - ttft) / (ANSWER - 1), rel=0.05, abs=late)
    assert ended.figures["summaries"][0]["cached_share"] == 30 / 40
    assert ended.figures["summaries"][0]["good_share"] == 1
    turns = ended.figures["summaries"][0]["turns"]
    assert 0 < int(counted["POST", "/v1/chat/completions"]["Request Count"]) <= turns, "Locust writes every second"
    assert int(counted["measure", "ITL"]["Request Count"]) % (ANSWER - 1) == 0
    assert {"TTFT, first turns", "TTFT, later turns", "TPOT", "E2E"} <= {name for kind, name in counted if kind}
    assert float(counted["POST", "/v1/chat/completions"]["Median Response Time"]) > 1e3 * ttft, "it is no header"
    assert (tmp_path / "locust.html").stat().st_size > 0


async def test_a_lying_server_is_a_failure_and_an_exit_status(tmp_path: Path) -> None:
    """A48: one that dies half way is no success that was short."""
    lies = {
        Script(lie="dies"): "cut off",
        Script(lie="no usage"): "no usage",
        Script(lie="no end"): "no end mark",
        Script(lie="error"): "error event: ",
        Script(lie="short"): "7 tokens came instead of 8",
        Script(status=503): "status 503",
    }

    async def lied_to(script: Script) -> Ended:
        folder = tmp_path / f"{script.lie}{script.status}"
        folder.mkdir()
        async with serving(script) as chat:
            return await swarm(chat, folder, turns=3)  # of two users: one has gone on after a failure

    for ended, told in zip(await asyncio.gather(*map(lied_to, lies)), lies.values(), strict=True):
        assert ended.status == 1, told
        assert ended.figures["summaries"][0]["turns"] == 0
        assert told in ended.printed


async def test_the_same_seed_says_the_same_and_leaves_and_branches(tmp_path: Path) -> None:
    async def first_messages(seed: str) -> tuple[Scripted, Ended]:
        folder = tmp_path / f"{seed}-{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        knobs = ("--seed", seed, "--turns", "3", "--branch-rate", "0.5", "--cancel-rate", "0.5", "--users", "1")
        async with serving(Script(between=0.01)) as chat:
            return chat, await swarm(chat, folder, *knobs, turns=12)

    runs = [await first_messages(seed) for seed in ("5", "5", "6")]
    said = [[truth.body["messages"][-1]["content"] for truth in chat.asks()][:8] for chat, _ in runs]
    assert said[0] == said[1] != said[2]
    assert all(ended.status == 0 for _, ended in runs), "who leaves on purpose has seen no failure"
    assert all(ended.figures["summaries"][0]["cancelled"] > 0 for _, ended in runs)
    lengths = {len(truth.body["messages"]) for chat, _ in runs for truth in chat.asks()}
    assert lengths <= {2, 4, 6}, "a branch takes the last exchange's place: the history does not grow by it"
    assert any(turn.get("branch") for _, ended in runs for turn in ended.figures["runs"][0]["turns"])


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("steps", [2, 4, 6, 8, 10]),
        ("spike", [2, 2, 10, 2, 2]),
        ("soak", [10, 10, 10, 10, 10]),
    ],
)
def test_shapes_say_how_many_users_there_are(name: str, counts: list[int]) -> None:
    found = [users_at(name, share, most=10) for share in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)]
    assert found == [*counts, None]


def test_none_of_this_makes_a_test_s_own_process_another_one() -> None:
    assert "locust" not in sys.modules, "importing it replaces sockets and threads"
