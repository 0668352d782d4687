"""Addresses are unmapped only when the work queued on them is over: what a device that runs behind would fault on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.vtensor.watched import WatchedDriver
from vtensor.driver.base import Address, Fence
from vtensor.driver.host import HostDriver
from vtensor.layout import KVLayout
from vtensor.manager import Manager
from vtensor.node import Tokens

P = 64


class Queued:
    """The fence of work that a slow device has not done yet."""

    def __init__(self, driver: LateDriver, number: int) -> None:
        self._driver, self._number = driver, number

    def done(self) -> bool:
        return self._driver.finished >= self._number

    def wait(self) -> None:
        self._driver.catch_up(self._number)


class LateDriver(WatchedDriver):
    """Clears and copies are done in order, but only once somebody waits for them."""

    def __init__(self) -> None:
        super().__init__(HostDriver())
        self.finished = 0
        self._queue: list[tuple[int, tuple[Address, ...], Callable[[], object]]] = []
        self._numbers = 0

    def clear(self, address: Address, size: int) -> Fence:
        return self._later((address,), lambda: super(LateDriver, self).clear(address, size))

    def copy(self, target: Address, source: Address, size: int) -> Fence:
        self._count("copy")
        return self._later((target, source), lambda: self._real.copy(target, source, size))

    def unmap(self, address: Address, size: int) -> None:
        touched = {where for _, addresses, _ in self._queue for where in addresses}
        assert not any(address <= where < address + size for where in touched), "unmapped under queued work"
        super().unmap(address, size)

    def catch_up(self, number: int) -> None:
        while self._queue and self._queue[0][0] <= number:
            self.finished, _, work = self._queue.pop(0)
            work()

    def _later(self, addresses: tuple[Address, ...], work: Callable[[], object]) -> Fence:
        self._numbers += 1
        self._queue.append((self._numbers, addresses, work))
        return Queued(self, self._numbers)


@pytest.fixture
def late() -> LateDriver:
    return LateDriver()


@pytest.fixture
def manager(late: LateDriver) -> Manager:
    layout = KVLayout.choose(
        layers=1, kv_heads=1, head_dim=8, itemsize=4, granularity=4096, max_len=1000, chunk_tokens=P
    )
    return Manager(late, layout, slots=4, limit=16)


def ids(length: int) -> Tokens:
    return np.random.default_rng(0).integers(0, 99, length, dtype=np.int32)


def test_memory_of_a_request_that_ended_before_its_first_step(manager: Manager) -> None:
    manager.release(manager.create(3 * P))
    manager.give_back()
    manager.close()


def test_a_branch_that_ended_before_its_copy_was_done(manager: Manager) -> None:
    manager.prefix_record(manager.create(3 * P), "", ids(3 * P))
    branch = manager.prefix_match("", np.append(ids(2 * P + 9), [1, 2]).astype(np.int32), 2)
    assert branch.reuse.copied == 9
    manager.release(branch.vtensor)
    manager.flush()
    manager.close()


def test_a_chunk_that_moves_to_another_slot_while_it_is_being_cleared(manager: Manager) -> None:
    first, second = manager.create(P), manager.create(P)
    manager.release(first)
    manager.extend(second, 2 * P)
    manager.release(second)
    manager.flush()
    manager.close()


def test_a_step_that_was_launched_on_a_released_vtensor(manager: Manager, late: LateDriver) -> None:
    vtensor = manager.create(P)
    step = late._later((vtensor.slot.address,), lambda: None)
    manager.release(vtensor, step)
    manager.give_back()
    manager.close()


def test_newcomers_in_an_evicted_one_s_place_wait_for_nobody_s_copy(manager: Manager, late: LateDriver) -> None:
    """Each takes a chunk from the same old conversation, whose slot the one before it was given."""
    common, old = ids(P + 9), np.concatenate([ids(P + 9), np.arange(9 * P, dtype=np.int32)])
    manager.prefix_record(manager.create(len(old)), "", old)
    manager.prefix_record(manager.create(5 * P), "", ids(5 * P) + 100)
    assert manager.stats().physical_chunks == 16
    late.catch_up(late._numbers)
    done = late.finished
    for newcomer in range(3):
        prompt = np.append(common, [200 + newcomer, 0]).astype(np.int32)
        assert manager.prefix_match("", prompt, 2).reuse.copied == 9
    assert manager.stats().evicted_chunks == 3
    assert late.finished == done
    late.catch_up(late._numbers)
    manager.close()
