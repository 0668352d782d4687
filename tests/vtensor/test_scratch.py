"""The slot for rows that nobody reads: mapped from the start, in nobody's books, and gone with the arena."""

from __future__ import annotations

import pytest
import torch

from tests.vtensor.watched import WatchedDriver
from vtensor.driver.base import DriverError
from vtensor.layout import KVLayout
from vtensor.manager import Manager
from vtensor.operations import SCRATCH


def test_its_first_row_takes_what_is_written(manager: Manager, rows: torch.Tensor) -> None:
    assert rows[SCRATCH, 0].eq(0).all()
    rows[SCRATCH, 0] = 7.0
    assert rows[SCRATCH, 0].eq(7).all()
    assert rows.data_ptr() == manager.arena


def test_it_is_no_ones_memory(manager: Manager) -> None:
    stats = manager.stats()
    assert (stats.physical_chunks, stats.slots_in_use) == (0, 0)
    vtensors = [manager.create(1) for _ in range(stats.slots)]
    assert SCRATCH not in {vtensor.slot.index for vtensor in vtensors}


@pytest.mark.parametrize("nth", [1, 2], ids=["create", "map"])
def test_an_arena_that_cannot_be_begun_leaves_nothing(driver: WatchedDriver, layout: KVLayout, nth: int) -> None:
    driver.fail_at = nth
    with pytest.raises(DriverError):
        Manager(driver, layout, slots=2, limit=4)
    driver.assert_nothing_left()
