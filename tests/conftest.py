"""What every room's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from chatserve.model.demo import demo_path, fetch_demo


@pytest.fixture(scope="session")
def demo_folder() -> Path:
    """The demo model's folder, fetched on first use; tests that ask for it are marked `model`."""
    return fetch_demo(demo_path(Path(__file__).parents[1] / ".models"), print)
