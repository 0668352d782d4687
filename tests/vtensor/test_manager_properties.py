"""Any sequence of acts, with calls that fail in between: the books balance after each, and every vTensor always reads
exactly the rows that were written for its tokens.
"""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.vtensor.watched import WatchedDriver
from vtensor.driver.host import HostDriver
from vtensor.layout import KVLayout
from vtensor.manager import Manager
from vtensor.node import Tokens
from vtensor.operations import OutOfChunks, OutOfSlots
from vtensor.pool import VTensor
from vtensor.reuse import Reuse, Why
from vtensor.view import arena_view

P = 4
LONGEST = 5 * P

tenants = st.sampled_from(["", "ann"])
some_tokens = st.builds(
    lambda same, rest: ([1] * same + rest)[:LONGEST] or [1],
    st.integers(0, LONGEST),
    st.lists(st.integers(1, 2), max_size=4),
)
"""Mostly alike, so that vTensors meet in the rTree at every kind of place."""
picks = st.integers(0, 1000)


class Acts(RuleBasedStateMachine):
    """Small chunks, few slots and little memory, so that every shortage happens."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = WatchedDriver(HostDriver())
        page = self.driver.granularity
        layout = KVLayout.choose(
            layers=1,
            kv_heads=1,
            head_dim=page // (P * 8),
            itemsize=4,
            granularity=page,
            max_len=LONGEST,
            chunk_tokens=P,
        )
        self.manager = Manager(self.driver, layout, slots=4, limit=12, reserve=1)
        view = arena_view(layout, self.manager.arena, slots=self.manager.slots, dtype=torch.float32, device=(1, 0))
        self.rows = view[..., 0, 0, 0, 0]
        self.running: dict[VTensor, tuple[str, list[int]]] = {}
        self.recorded: set[tuple[str, tuple[int, ...]]] = set()  # every prefix of it, since the last flush
        self.perhaps: set[tuple[str, tuple[int, ...]]] = set()  # published: recorded, unless others had it already
        self.flushed: set[tuple[str, tuple[int, ...]]] = set()

    def pick(self, number: int) -> VTensor:
        return list(self.running)[number % len(self.running)]

    def write(self, vtensor: VTensor, start: int, tokens: list[int]) -> None:
        self.rows[vtensor.slot.index, start : start + len(tokens)] = torch.tensor(tokens, dtype=torch.float32)

    @rule(tenant=tenants, tokens=some_tokens)
    def match(self, tenant: str, tokens: list[int]) -> None:
        try:
            admitted = self.manager.prefix_match(tenant, ids(tokens), 1)
        except (OutOfChunks, OutOfSlots):
            return
        self.check_reuse(tenant, tokens, admitted.reuse)
        self.running[admitted.vtensor] = (tenant, tokens[: admitted.cached])
        self.check(admitted.vtensor)

    @precondition(lambda self: self.running)
    @rule(number=picks, tokens=some_tokens)
    def compute(self, number: int, tokens: list[int]) -> None:
        vtensor = self.pick(number)
        tenant, known = self.running[vtensor]
        tokens = tokens[: LONGEST - len(known)]
        try:
            self.manager.extend(vtensor, len(known) + len(tokens))
        except OutOfChunks:
            return
        self.write(vtensor, len(known), tokens)
        self.running[vtensor] = (tenant, known + tokens)

    @precondition(lambda self: self.running)
    @rule(number=picks)
    def publish(self, number: int) -> None:
        vtensor = self.pick(number)
        tenant, known = self.running[vtensor]
        self.manager.publish(vtensor, tenant, ids(known))
        self.perhaps |= prefixes(tenant, known)

    @precondition(lambda self: self.running)
    @rule(number=picks, cut=st.integers(0, 3))
    def record(self, number: int, cut: int) -> None:
        vtensor = self.pick(number)
        tenant, known = self.running.pop(vtensor)
        kept = known[: max(0, len(known) - cut)] if cut and len(known) - cut >= vtensor.shared_rows else known
        self.manager.prefix_record(vtensor, tenant, ids(kept))
        self.recorded |= prefixes(tenant, kept)

    @precondition(lambda self: self.running)
    @rule(number=picks)
    def release(self, number: int) -> None:
        vtensor = self.pick(number)
        del self.running[vtensor]
        self.manager.release(vtensor)

    @rule()
    def give_back(self) -> None:
        self.manager.give_back()

    @rule(tenant=tenants, tokens=some_tokens)
    def warm(self, tenant: str, tokens: list[int]) -> None:
        before = self.manager.stats()
        try:
            warm = self.manager.warm(tenant, ids(tokens))
        except (OutOfChunks, OutOfSlots):
            return
        assert not warm or self.manager.look(tenant, ids(tokens)).warm
        assert self.manager.stats().physical_chunks == before.physical_chunks

    @rule(tenant=tenants, tokens=some_tokens)
    def look(self, tenant: str, tokens: list[int]) -> None:
        before, calls = self.manager.stats(), len(self.driver.calls)
        memory = self.manager.look(tenant, ids(tokens))
        assert memory.physical_chunks == -(-memory.recorded // P)
        assert memory.shared_chunks <= memory.physical_chunks
        assert (self.manager.stats(), len(self.driver.calls)) == (before, calls)

    @rule()
    def flush(self) -> None:
        if self.manager.stats().recorded_tokens:  # else what was evicted before is still what is known of it
            self.flushed = self.recorded | self.perhaps
            self.recorded, self.perhaps = set(), set()
        self.manager.flush()

    @rule(nth=st.integers(1, 5))
    def a_later_call_will_fail(self, nth: int) -> None:
        self.driver.fail_at = nth

    def check_reuse(self, tenant: str, tokens: list[int], reuse: Reuse) -> None:
        """What is said of a miss is true, by a list of all that was ever recorded."""
        stop = reuse.stop
        if stop is None:
            assert reuse.tokens == len(tokens) - 1
            return
        reached, once = (tenant, tuple(tokens[: stop.at + 1])), self.recorded | self.perhaps
        assert (stop.at, stop.asked) == (reuse.tokens, tokens[reuse.tokens])
        assert stop.at < len(tokens) - 1
        if stop.why is Why.BELOW_UNIT:
            return
        if reached in self.recorded:
            assert stop.why is Why.EVICTED
        match stop.why:
            case Why.EVICTED:
                assert reached in once
            case Why.FLUSHED:
                assert reached in self.flushed
            case Why.DIFFERS:
                assert stop.found not in (None, stop.asked)
                assert (tenant, (*tokens[: stop.at], stop.found)) in once
            case Why.RECORD_ENDS:
                assert stop.at > 0
                assert (tenant, tuple(tokens[: stop.at])) in once
            case why:
                assert (why, stop.at) == (Why.NOTHING_RECORDED, 0)

    def check(self, vtensor: VTensor) -> None:
        _, known = self.running[vtensor]
        assert self.rows[vtensor.slot.index, : len(known)].tolist() == known

    @invariant()
    def the_books_balance(self) -> None:
        self.manager.audit()
        pages = set(self.driver.mapped.values())
        assert pages <= set(self.driver.handles)

    @invariant()
    def every_running_vtensor_reads_its_own_rows(self) -> None:
        for vtensor in self.running:
            self.check(vtensor)

    def teardown(self) -> None:
        for vtensor in list(self.running):
            self.manager.release(vtensor)
        self.manager.flush()
        stats = self.manager.stats()
        assert stats.private_chunks == stats.shared_chunks == stats.slots_in_use == stats.slots_warm == 0
        self.manager.close()
        self.driver.assert_nothing_left()


def prefixes(tenant: str, tokens: list[int]) -> set[tuple[str, tuple[int, ...]]]:
    return {(tenant, tuple(tokens[:length])) for length in range(1, len(tokens) + 1)}


def ids(tokens: list[int]) -> Tokens:
    return np.array(tokens, dtype=np.int32)


TestActs = Acts.TestCase
TestActs.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
