"""Two servers for all tests that leave one running: the real model, and one whose words are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.recital import Recital, make_recital
from tests.integration.serving import WIDE, Serving, serving

RESERVE = 2 << 20
SCRATCH = 64 << 10
"""More than the one row of the scratch slot takes, which is mapped always and in nobody's books."""


@pytest.fixture(scope="session")
def recital(demo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Recital:
    return make_recital(tmp_path_factory.mktemp("models") / "recital", demo_folder)


@pytest.fixture(scope="session")
def reciting(recital: Recital, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """With KV memory in reserve, on the CPU wherever the tests run."""
    arguments = (str(recital.folder), "--device", "cpu", "--kv-reserve", str(RESERVE), "--name", WIDE)
    with serving(*arguments, folder=tmp_path_factory.mktemp("reciting")) as server:
        yield server


@pytest.fixture(scope="module")
def chatting(demo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The real model."""
    with serving(str(demo_folder), "--device", "cpu", folder=tmp_path_factory.mktemp("chatting")) as server:
        yield server
