"""What every driver of virtual memory must do. The CUDA half runs where there is a device (-m gpu)."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vtensor.driver.base import Address, Driver, DriverError
from vtensor.driver.registry import open_driver
from vtensor.layout import KVLayout
from vtensor.view import arena_view


class Arena:
    """Eight granules of addresses, each seen as one row of numbers."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.size = driver, driver.granularity
        self.base = driver.reserve(8 * self.size)
        layout = KVLayout.choose(
            layers=1, kv_heads=1, head_dim=self.size // 8, itemsize=4, granularity=self.size, max_len=1, chunk_tokens=1
        )
        self.rows = arena_view(layout, self.base, slots=4, dtype=torch.float32, device=driver.dlpack_device).flatten(2)

    def at(self, granule: int) -> Address:
        return Address(self.base + granule * self.size)

    def row(self, granule: int) -> torch.Tensor:
        return self.rows[granule // 2, granule % 2]


@pytest.fixture
def arena(driver: Driver) -> Arena:
    return Arena(driver)


def test_two_addresses_of_one_handle_are_the_same_memory(arena: Arena) -> None:
    driver, size = arena.driver, arena.size
    handle = driver.create(size)
    driver.map(arena.at(0), size, handle, writable=True)
    driver.map(arena.at(5), size, handle, writable=False)
    arena.row(0).copy_(torch.arange(size // 4))
    assert arena.row(5).tolist() == list(range(size // 4))
    for granule in (0, 5):
        driver.unmap(arena.at(granule), size)
    driver.release(handle, size)
    driver.unreserve(arena.base, 8 * size)
    driver.close()


def test_a_new_handle_reads_as_zeros_even_where_memory_was_used_before(arena: Arena) -> None:
    driver, size = arena.driver, arena.size
    for _ in range(3):
        handle = driver.create(size)
        driver.map(arena.at(1), size, handle, writable=True)
        driver.clear(arena.at(1), size).wait()
        assert arena.row(1).count_nonzero() == 0
        arena.row(1).fill_(7.0)
        driver.unmap(arena.at(1), size)
        driver.release(handle, size)


def test_what_is_written_stays_while_the_handle_is_mapped_nowhere(arena: Arena) -> None:
    driver, size = arena.driver, arena.size
    handle = driver.create(size)
    driver.map(arena.at(2), size, handle, writable=True)
    arena.row(2).fill_(3.0)
    driver.unmap(arena.at(2), size)
    driver.map(arena.at(3), size, handle, writable=False)
    assert arena.row(3).eq(3.0).all()


def test_several_handles_lie_one_behind_the_other(arena: Arena) -> None:
    driver, size = arena.driver, arena.size
    one, two = driver.create(size), driver.create(size)
    driver.map(arena.at(1), size, one, two, writable=True)
    arena.row(1).fill_(1.0)
    arena.row(2).fill_(2.0)
    driver.unmap(arena.at(1), 2 * size)
    driver.map(arena.at(4), size, two, one, writable=False)
    assert arena.row(4).eq(2.0).all()
    assert arena.row(5).eq(1.0).all()


def test_a_read_only_mapping_can_be_made_writable(arena: Arena) -> None:
    driver, size = arena.driver, arena.size
    handle = driver.create(size)
    driver.map(arena.at(0), size, handle, writable=False)
    driver.protect(arena.at(0), size, writable=True)
    arena.row(0).fill_(2.0)
    assert arena.row(0).eq(2.0).all()


def test_copies_follow_what_was_written_before(arena: Arena) -> None:
    driver, size = arena.driver, arena.size
    for granule in (0, 1):
        driver.map(arena.at(granule), size, driver.create(size), writable=True)
    arena.row(1).zero_()
    arena.row(0).fill_(5.0)
    if arena.rows.is_cuda:
        torch.cuda.current_stream().synchronize()
    driver.copy(arena.at(1), arena.at(0), size // 2).wait()
    assert arena.row(1)[: size // 8].eq(5.0).all()
    assert arena.row(1)[size // 8 :].count_nonzero() == 0


def test_released_memory_is_the_systems_again(arena: Arena) -> None:
    driver, size = arena.driver, arena.size
    taken = taken_on_the_device if arena.rows.is_cuda else taken_from_the_system
    count, before = 128, taken(driver)
    handles = [driver.create(size) for _ in range(count)]
    assert taken(driver) - before >= count * size
    for handle in handles:
        driver.release(handle, size)
    assert taken(driver) - before < size


def taken_on_the_device(driver: Driver) -> int:
    return -driver.free_bytes()


def taken_from_the_system(_: Driver) -> int:
    """Bytes of pages that the memfds of this process hold, as the kernel counts them."""
    files = [path for path in Path("/proc/self/fd").iterdir() if "memfd:vtensor" in str(path.resolve())]
    return sum(path.stat().st_blocks * 512 for path in files)


LEFT_BEHIND = """
import gc, sys
from vtensor.driver.registry import open_driver

class Holder:
    pass

driver = open_driver(sys.argv[1])
base = driver.reserve(driver.granularity)
handle = driver.create(driver.granularity)
driver.map(base, driver.granularity, handle, writable=True)
holder = Holder()
holder.holder, holder.fence = holder, driver.clear(base, driver.granularity)
driver.unmap(base, driver.granularity)
driver.release(handle, driver.granularity)
driver.close()
del holder
print(gc.collect())
"""


@pytest.mark.parametrize("name", ["host", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_fence_may_outlive_its_driver(name: str) -> None:
    """In a process of its own, where nobody else keeps the device's context."""
    ended = subprocess.run([sys.executable, "-c", LEFT_BEHIND, name], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert int(ended.stdout) > 0, "nothing was collected"


def test_an_unknown_driver_is_refused_by_name() -> None:
    with pytest.raises(DriverError, match="no driver is called 'tape'; there are host, cuda"):
        open_driver("tape")
