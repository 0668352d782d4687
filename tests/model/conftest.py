from __future__ import annotations

import pytest

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
