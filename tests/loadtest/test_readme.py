"""The page that says what is measured says it as the code does."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from chatserve.bench.definitions import DEFINITIONS
from loadtest.users.knobs import MODES, add_arguments
from loadtest.users.shapes import SHAPES

PAGE = (Path(__file__).parents[2] / "loadtest" / "README.md").read_text()
WORDS = " ".join(PAGE.split())


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_definition_is_there_word_for_word(name: str) -> None:
    assert f"- **{name}**: {' '.join(DEFINITIONS[name].split())}" in WORDS


def test_every_argument_of_locust_is_there() -> None:
    class Names(ArgumentParser):
        def add_argument(self, name: str, **_: Any) -> None:  # type: ignore[override]
            if name.startswith("--"):
                found.append(name)

    found: list[str] = []
    add_arguments(Names(add_help=False))
    assert found
    assert [name for name in found if f"`{name}" not in PAGE] == []
    assert all(f"`{each}`" in PAGE for each in (*MODES, *SHAPES))
