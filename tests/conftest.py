"""What every room's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatserve.model.demo import fetch_demo
from chatserve.model.demo_folder import demo_path
from tests.interpreted import interpret_triton

interpret_triton()  # before any test's module imports a kernel


@pytest.fixture(scope="session")
def demo_folder() -> Path:
    """The demo model's folder, fetched on first use; tests that ask for it are marked `model`."""
    return fetch_demo(demo_path(Path(__file__).parents[1] / ".models"), print)
