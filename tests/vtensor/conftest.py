"""Drivers that the tests run on: the same suite for both, and one that keeps its own books beside the real calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from tests.vtensor.watched import WatchedDriver
from vtensor.driver.base import Driver
from vtensor.driver.registry import open_driver
from vtensor.layout import KVLayout
from vtensor.manager import Manager
from vtensor.view import arena_view


@pytest.fixture(params=["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def driver(request: pytest.FixtureRequest) -> Driver:
    """A fresh driver; whoever makes a manager of it closes it with the manager."""
    return WatchedDriver(open_driver(request.param))


@pytest.fixture
def layout(driver: Driver) -> KVLayout:
    """Chunks of 64 tokens of one granule each; sequences of up to 16 chunks."""
    head_dim = driver.granularity // (64 * 2 * 4)
    return KVLayout.choose(
        layers=1,
        kv_heads=1,
        head_dim=head_dim,
        itemsize=4,
        granularity=driver.granularity,
        max_len=16 * 64 - 1,
        chunk_tokens=64,
    )


@pytest.fixture
def make_manager(driver: Driver, layout: KVLayout) -> Iterator[Callable[..., Manager]]:
    managers: list[Manager] = []

    def make(*, slots: int = 8, limit: int = 64, reserve: int = 0) -> Manager:
        managers.append(Manager(driver, layout, slots=slots, limit=limit, reserve=reserve))
        return managers[-1]

    yield make
    for manager in managers:
        manager.audit()
        manager.close()
    assert isinstance(driver, WatchedDriver)
    driver.assert_nothing_left()


@pytest.fixture
def manager(make_manager: Callable[..., Manager]) -> Manager:
    return make_manager()


@pytest.fixture
def rows(manager: Manager, driver: Driver, layout: KVLayout) -> torch.Tensor:
    """[slots, rows, layers, 2, kv_heads, head_dim]: the arena as a model sees it."""
    return arena_view(layout, manager.arena, slots=manager.slots, dtype=torch.float32, device=driver.dlpack_device)
