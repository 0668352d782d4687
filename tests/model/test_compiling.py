"""Kernels compiled ahead of the captures are the captures' kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
ROOT = Path(__file__).parents[2]


def test_two_layers_compiled_ahead_leave_nothing_to_compile_in_the_steps_of_all(tmp_path):
    """Compiled for a GPU that is not there: under the key that the launch looks up, and nothing is launched."""
    command = [sys.executable, "-m", "tests.model.pretended_gpu", "3"]
    own_cache = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    ended = subprocess.run(command, cwd=ROOT, env=own_cache, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["launched ahead"] == []
    assert said["later"] == []
    assert set(said["ahead"]) == set(said["launched"])
    assert {"norm_kernel", "product_kernel", "attend_kernel", "plan_kernel"} <= set(said["ahead"])
