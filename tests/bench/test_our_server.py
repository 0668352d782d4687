"""`chatserve bench` against our own server and the demo model: turns of every kind are whole, and reuse their past."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chatserve.bench.record import Record
from tests.bench.test_command import bench, figure
from tests.integration.serving import Serving, serving

pytestmark = pytest.mark.model

QUICK = ["--system", "40", "--first", "20", "--later", "10", "--answer", "6:2", "--concurrency", "2"]


@pytest.fixture(scope="module")
def server(demo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(str(demo_folder), "--device", "cpu", folder=tmp_path_factory.mktemp("serving")) as served:
        yield served


@pytest.mark.parametrize("mode", [(), ("--stateful",)], ids=["chat", "responses"])
def test_turns_branches_and_cancelled_answers_go_well(server: Serving, mode: tuple[str, ...], tmp_path: Path) -> None:
    kept = tmp_path / "out.json"
    users = ["--turns", "4", "--branch-rate", "0.4", "--cancel-rate", "0.3", "--conversations", "2", "--seed", "11"]
    told = bench(server.url, *QUICK, *users, *mode, "--slo", "e2e=60s", "--json", str(kept))
    assert told.returncode == 0, told.stdout + told.stderr
    (run,) = msgspec.json.decode(kept.read_bytes(), type=Record).runs
    assert len(run.turns) == 8
    assert {turn.cancelled for turn in run.turns} == {turn.branch for turn in run.turns} == {True, False}
    assert figure(told.stdout, "failed") == "0"
    assert run.summary.good_share == 1.0
    later = [turn for turn in run.turns if turn.turn and turn.usage]
    assert all(turn.usage.cached >= 40 for turn in later if turn.usage), "at least what all of them share"
    assert (run.summary.cached_share or 0) > 0.5
