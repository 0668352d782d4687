"""Engines that are closed, and their books checked, after each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.engine.lab import Lab, Oracle


@pytest.fixture(params=[1, 2], ids=["a step at a time", "a step ahead"])
def make_lab(request: pytest.FixtureRequest) -> Iterator[Callable[..., Lab]]:
    labs: list[Lab] = []

    def make(**settings: object) -> Lab:
        labs.append(Lab(**{"depth": request.param, **settings}))
        return labs[-1]

    yield make
    for lab in labs:
        lab.engine.audit()
        lab.close()


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    return make_lab()


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    return Oracle()
