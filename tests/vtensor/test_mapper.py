"""The mapper: one act at a time, extensions before what waits, order kept for the rest."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import numpy as np
import pytest

from tests.vtensor.watched import WatchedDriver
from vtensor.driver.base import Address, Handle
from vtensor.driver.host import HostDriver
from vtensor.layout import KVLayout
from vtensor.manager import Manager
from vtensor.mapper import Mapper
from vtensor.operations import OutOfChunks

P = 64


class SlowDriver(WatchedDriver):
    """Its map calls wait for a gate and say which thread they came from."""

    def __init__(self) -> None:
        super().__init__(HostDriver())
        self.gate = threading.Event()
        self.gate.set()
        self.threads: set[str] = set()

    def map(self, address: Address, size: int, *handles: Handle, writable: bool) -> None:
        self.gate.wait(10)
        self.threads.add(threading.current_thread().name)
        super().map(address, size, *handles, writable=writable)


@pytest.fixture
def slow() -> SlowDriver:
    return SlowDriver()


@pytest.fixture
def make_mapper(slow: SlowDriver) -> Iterator[Callable[..., Mapper]]:
    layout = KVLayout.choose(
        layers=1, kv_heads=1, head_dim=8, itemsize=4, granularity=4096, max_len=1000, chunk_tokens=P
    )
    mappers: list[Mapper] = []

    def make(*, limit: int = 32, reserve: int = 0, idle_after: float = 0.05, keep: float | None = None) -> Mapper:
        manager = Manager(slow, layout, slots=4, limit=limit, reserve=reserve)
        slow.threads.clear()
        mappers.append(Mapper(manager, idle_after=idle_after, keep_unused=keep))
        return mappers[-1]

    yield make
    for mapper in mappers:
        slow.gate.set()
        mapper.close()
    slow.assert_nothing_left()


@pytest.fixture
def mapper(make_mapper: Callable[..., Mapper]) -> Mapper:
    return make_mapper()


def test_the_caller_goes_on_while_memory_is_mapped(mapper: Mapper, slow: SlowDriver) -> None:
    vtensor = mapper.submit(lambda manager: manager.create(P)).result()
    slow.gate.clear()
    mapper.extend_ahead(vtensor, P + 1)
    assert vtensor.rows == P
    slow.gate.set()
    assert mapper.ready(vtensor, P + 1)
    assert vtensor.rows == 2 * P
    assert all(name.startswith("mapper") for name in slow.threads)


def test_an_extension_goes_before_acts_that_wait(mapper: Mapper, slow: SlowDriver) -> None:
    vtensor = mapper.submit(lambda manager: manager.create(P)).result()
    slow.gate.clear()
    first = mapper.submit(lambda manager: manager.create(P))
    seen = mapper.submit(lambda _: vtensor.rows)
    mapper.extend_ahead(vtensor, 2 * P)
    slow.gate.set()
    assert seen.result(10) == 2 * P
    assert first.result(10).rows == P


def test_a_caller_with_nothing_better_to_do_acts_itself_while_the_mapper_is_idle(
    mapper: Mapper, slow: SlowDriver
) -> None:
    done = mapper.at_once(lambda manager: manager.create(P))
    assert done.done()
    assert done.result().rows == P
    assert slow.threads == {threading.current_thread().name}


def test_a_caller_with_nothing_better_to_do_overtakes_nobody(mapper: Mapper, slow: SlowDriver) -> None:
    vtensor = mapper.at_once(lambda manager: manager.create(P)).result()
    slow.gate.clear()
    mapper.submit(lambda manager: manager.extend(vtensor, 2 * P))
    seen = mapper.at_once(lambda _: vtensor.rows)
    assert not seen.done()
    slow.gate.set()
    assert seen.result(10) == 2 * P


def test_an_act_at_once_that_fails_leaves_the_turn_to_others(make_mapper: Callable[..., Mapper]) -> None:
    mapper = make_mapper(limit=1)
    with pytest.raises(OutOfChunks):
        mapper.at_once(lambda manager: manager.create(2 * P)).result()
    assert mapper.submit(lambda manager: manager.create(P)).result(10).rows == P


def test_one_act_at_a_time_whoever_does_it(mapper: Mapper) -> None:
    """Acts by two callers and the mapper: none begins before another has ended."""
    under_way, together = 0, []

    def act(_: Manager) -> None:
        nonlocal under_way
        under_way += 1
        together.append(under_way)
        time.sleep(0.0005)
        under_way -= 1

    def call(do: Callable[[Callable[[Manager], None]], Future[None]]) -> None:
        for _ in range(40):
            do(act).result(10)

    callers = [threading.Thread(target=call, args=(do,)) for do in (mapper.at_once, mapper.submit, mapper.at_once)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert together == [1] * 120


def test_acts_see_those_submitted_before(mapper: Mapper) -> None:
    tokens = np.arange(P + 5, dtype=np.int32)
    vtensor = mapper.submit(lambda manager: manager.create(len(tokens))).result()
    mapper.submit(lambda manager: manager.prefix_record(vtensor, "", tokens))
    admitted = mapper.submit(lambda manager: manager.prefix_match("", np.append(tokens, 1).astype(np.int32), 1))
    assert admitted.result(10).cached == len(tokens)


def test_too_little_memory_is_told_to_whoever_waits_and_may_be_asked_again(
    make_mapper: Callable[..., Mapper],
) -> None:
    mapper = make_mapper(limit=2)
    one = mapper.submit(lambda manager: manager.create(P)).result()
    two = mapper.submit(lambda manager: manager.create(P)).result()
    mapper.extend_ahead(one, P + 1)
    assert not mapper.ready(one, P + 1)
    with pytest.raises(OutOfChunks):
        mapper.submit(lambda manager: manager.create(1)).result()
    mapper.submit(lambda manager: manager.release(two)).result()
    mapper.extend_ahead(one, P + 1)
    assert mapper.ready(one, P + 1)


def test_free_memory_goes_back_soon_after_the_last_act_and_recorded_prefixes_stay(
    make_mapper: Callable[..., Mapper], slow: SlowDriver
) -> None:
    mapper = make_mapper(reserve=1)
    recorded, freed = (mapper.submit(lambda manager: manager.create(4 * P)).result() for _ in range(2))
    mapper.submit(lambda manager: manager.prefix_record(recorded, "", np.arange(2 * P, dtype=np.int32))).result()
    mapper.submit(lambda manager: manager.release(freed)).result()
    wait_until(lambda: slow.chunks == 2 + 1)
    stats = mapper.submit(lambda manager: manager.stats()).result()
    assert (stats.private_chunks, stats.free_chunks) == (2, 1)


def test_memory_that_is_watched_all_the_time_goes_back_as_soon(
    make_mapper: Callable[..., Mapper], slow: SlowDriver
) -> None:
    mapper = make_mapper(idle_after=0.2)
    vtensor = mapper.submit(lambda manager: manager.create(P)).result()
    mapper.submit(lambda manager: manager.release(vtensor)).result()
    wait_until(lambda: mapper.look(lambda manager: manager.stats()).result().free_chunks == 0)
    assert slow.chunks == 0


def test_a_prefix_unused_for_too_long_is_forgotten(make_mapper: Callable[..., Mapper], slow: SlowDriver) -> None:
    mapper = make_mapper(keep=0.05)
    vtensor = mapper.submit(lambda manager: manager.create(P)).result()
    mapper.submit(lambda manager: manager.prefix_record(vtensor, "", np.arange(P, dtype=np.int32))).result()
    wait_until(lambda: slow.chunks == 0)


def test_a_broken_invariant_ends_the_mapper_and_is_told_to_everyone(slow: SlowDriver) -> None:
    layout = KVLayout.choose(layers=1, kv_heads=1, head_dim=8, itemsize=4, granularity=4096, max_len=64)
    mapper = Mapper(Manager(slow, layout, slots=1, limit=1))
    vtensor = mapper.submit(lambda manager: manager.create(1)).result()
    mapper.submit(lambda manager: manager.release(vtensor)).result()
    broken = mapper.submit(lambda manager: manager.release(vtensor))
    after = mapper.submit(lambda manager: manager.stats())
    with pytest.raises(AssertionError, match="released twice"):
        broken.result(10)
    with pytest.raises(AssertionError, match="released twice"):
        after.result(10)
    with pytest.raises(AssertionError, match="released twice"):
        mapper.close()


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
