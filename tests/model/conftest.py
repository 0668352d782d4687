from __future__ import annotations

from pathlib import Path

import pytest

from chatserve.model.demo import demo_path, fetch_demo
from tests.model.tiny import FAMILIES, Tiny, make_tiny, tiny_config


@pytest.fixture(params=FAMILIES, scope="module")
def family(request: pytest.FixtureRequest) -> Tiny:
    """Each architecture in turn."""
    kind, changes = FAMILIES[request.param]
    return make_tiny(tiny_config(kind, **changes))


@pytest.fixture(scope="module")
def llama() -> Tiny:
    """The plainest one."""
    return make_tiny(tiny_config("llama"))


@pytest.fixture(scope="session")
def demo_folder() -> Path:
    """The demo model's folder, fetched on first use."""
    return fetch_demo(demo_path(Path(__file__).parents[2] / ".models"), print)
