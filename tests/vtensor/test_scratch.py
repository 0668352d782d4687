"""A slot for rows that nobody reads: mapped when it is asked for, in nobody's books, and gone with the arena."""

from __future__ import annotations

import torch

from tests.vtensor.watched import WatchedDriver
from vtensor.manager import Manager
from vtensor.view import arena_view


def test_the_scratch_slots_first_row_takes_what_is_written(manager: Manager, driver: WatchedDriver) -> None:
    index = manager.scratch()
    view = arena_view(
        manager.layout, manager.arena, slots=manager.slots, dtype=torch.float32, device=driver.dlpack_device
    )
    assert index == manager.slots - 1
    assert view[index, 0].eq(0).all()
    view[index, 0] = 7.0
    assert view[index, 0].eq(7).all()
    manager.audit()


def test_it_counts_as_no_ones_memory(manager: Manager, driver: WatchedDriver) -> None:
    before = manager.stats()
    index = manager.scratch()
    calls = len(driver.calls)
    assert manager.scratch() == index
    assert len(driver.calls) == calls
    after = manager.stats()
    assert (after.physical_chunks, after.slots_in_use) == (before.physical_chunks, before.slots_in_use) == (0, 0)
    vtensors = [manager.create(1) for _ in range(after.slots)]
    assert index not in {vtensor.slot.index for vtensor in vtensors}
