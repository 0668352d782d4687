"""Locust against our own server and the demo model, in both modes: the program that CI runs for longer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.model
@pytest.mark.timeout(300)
def test_nothing_fails_in_either_mode(demo_folder: Path, tmp_path: Path) -> None:  # noqa: ARG001
    command = [sys.executable, "-m", "loadtest.smoke", "--seconds", "4", "--out", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout
    for mode in ("stateless", "stateful"):
        found = json.loads((tmp_path / f"smoke_{mode}.json").read_text())["summaries"][0]
        assert found["turns"] > 0
        assert found["failures"] == {}
