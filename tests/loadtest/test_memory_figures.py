"""The memory figures on the host driver: a real manager and mapper, everything 1,024 times smaller."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from loadtest.memory_batches import BATCHES, over_batches
from loadtest.memory_shape import LLAMA_8B, SMALL
from loadtest.memory_trace import PHASES, Pace, Trace, arrivals
from vtensor.driver.host import HostDriver


def test_the_full_shape_is_the_one_that_others_were_measured_with() -> None:
    assert LLAMA_8B.token_bytes == 128 * 1024
    assert LLAMA_8B.scale == 1
    assert SMALL.token_bytes * 1024 == LLAMA_8B.token_bytes


def test_over_batches_ours_takes_what_is_used_and_little_more() -> None:
    rows = over_batches(HostDriver, SMALL, seed=1)
    assert [row["batch"] for row in rows] == list(BATCHES)
    chunk = 256 * SMALL.token_bytes
    for row in rows:
        assert row["used_bytes"] <= row["ours_bytes"] <= row["used_bytes"] + row["batch"] * chunk
        assert row["ours_bytes"] < row["native_bytes"]
        assert row["ours_bytes_after_release"] == 0
        assert row["device_free_share_paged"] < row["device_free_share_ours"]
    assert not rows[-1]["native_fits"], "64 longest sequences are more than the device has"


def test_a_trace_follows_the_rate_and_gives_back() -> None:
    pace = Pace(seconds=2.0, rate=30.0, tokens=8000.0, keep_unused=0.1)
    trace = Trace(HostDriver(), SMALL, pace, seed=1)
    found = trace.run()
    samples = trace.samples
    for used, held, physical in zip(samples.used, samples.held, samples.physical, strict=True):
        assert used <= held <= physical
    assert found["physical_bytes_at_most"] > 0
    assert found["physical_bytes_at_the_end"] == 0
    assert found["creates"] + found["takeovers"] + found["matches"] > 0


def test_arrivals_are_seeded_and_keep_to_the_phases() -> None:
    pace = Pace(seconds=100.0)
    random = np.random.default_rng
    times = arrivals(pace, random(5))
    assert times == arrivals(pace, random(5)) == sorted(times)
    quiet = PHASES[0][0] * pace.seconds
    assert quiet <= times[0]
    assert times[-1] <= (1 - PHASES[-1][0]) * pace.seconds


def test_the_program_keeps_json_and_draws_it(tmp_path: Path) -> None:
    out = tmp_path / "memory.json"
    command = [sys.executable, "-m", "loadtest.memory_figures", "--driver", "host", "--seconds", "1"]
    subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    assert set(json.loads(out.read_text())) == {"machine", "shape", "batches", "trace"}
    subprocess.run([sys.executable, "-m", "loadtest.draw_memory", str(out)], check=True, stdout=subprocess.DEVNULL)
    assert {each.name for each in tmp_path.glob("*.png")} == {"memory.batches.png", "memory.trace.png"}
