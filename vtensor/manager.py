"""vTensor Manager: Create, Extend, PrefixRecord, PrefixMatch and Release (vTensor paper, section 5.4).

One act happens at a time (see mapper.py), its bookkeeping and its driver calls. Each is all or nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from vtensor.audit import audit
from vtensor.driver.base import Address, DeviceMemory, Driver, DriverError, Fence
from vtensor.layout import KVLayout
from vtensor.node import Node, Tokens
from vtensor.operations import Operations
from vtensor.picture import Picture, take_picture
from vtensor.pool import Chunk, VTensor
from vtensor.prefix import PrefixMemory, measure_prefix
from vtensor.reuse import Reuse, Why
from vtensor.reusing import Admitted, Origin, Reusing
from vtensor.rtree import RTree
from vtensor.running import Running
from vtensor.stats import Counts, MemoryStats, measure
from vtensor.warm import WarmSlots


class Manager:
    """The vTensors of one model on one device.

    slots: sequences that can be mapped at once, running or warm.  limit: chunks that may exist.
    reserve: free chunks that `give_back` keeps for the next request.
    """

    def __init__(
        self,
        driver: Driver,
        layout: KVLayout,
        *,
        slots: int,
        limit: int,
        reserve: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.layout = layout
        self._reserve = reserve
        self._clock = clock
        self._operations = Operations(driver, layout, slots=slots, limit=limit)
        self._warm = WarmSlots(self._operations)
        self._tree = RTree(
            layout.chunk_tokens,
            take=self._operations.pset.record,
            drop=self._operations.pForget,
            unwarm=self._warm.let_go,
            clock=clock,
        )
        self._running = Running(self._operations, layout, self._warm, self._evict)
        self._reusing = Reusing(self._operations, layout, self._running, self._warm)
        self._counts = Counts()

    def bind_thread(self) -> None:
        """Called by a thread that will do acts."""
        self._operations.driver.bind_thread()

    @property
    def arena(self) -> Address:
        """The first slot's address."""
        return self._operations.arena

    @property
    def slots(self) -> int:
        """Slots of the arena, those that are kept back included."""
        return 1 + len(self._operations.every_slot())

    @property
    def capacity(self) -> int:
        """Tokens that one sequence can hold when it has all memory to itself."""
        return min(self.layout.max_len, self._operations.limit * self.layout.chunk_tokens)

    def create(self, rows: int, *, headroom: int = 0) -> VTensor:
        """Create: a vTensor with nothing in it and `rows` rows mapped.

        headroom: chunks that must be left to get for others. Raises OutOfSlots, OutOfChunks.
        """
        return self._running.create(rows, headroom=headroom)

    def extend(self, vtensor: VTensor, rows: int) -> None:
        """Extend: map chunks until `rows` rows are ready. Raises OutOfChunks, the vTensor being as it was."""
        self._running.extend(vtensor, rows)

    def prefix_match(
        self, tenant: str, tokens: Tokens, new_rows: int, *, most_rows: int | None = None, headroom: int = 0
    ) -> Admitted:
        """PrefixMatch: a vTensor that has the longest recorded prefix of these tokens.

        new_rows: rows to have mapped beyond that prefix.  most_rows: but never more at all; None: as there are tokens.
        headroom: chunks that must be left to get for others.
        At least the last token is left to compute. Where the match ends at an idle vTensor whose slot is warm, that
        slot is taken over without a call; elsewhere whole chunks are mapped read-only at a fresh slot and the used rows
        of the chunk the match ends in are copied. Without a match this is Create. Raises OutOfSlots, OutOfChunks.
        """
        match = self._tree.rPrefixMatch(tenant, tokens[:-1])
        new_rows = min(new_rows, (most_rows or len(tokens)) - match.length)
        if match.length == 0:
            vtensor = self._running.create(new_rows, headroom=headroom)
            self._counts.creates += 1
            return Admitted(vtensor, Origin.CREATED, Reuse(stop=match.stop))
        need = self.layout.chunks_for(match.length + new_rows) + headroom
        if match.leaf is not None and match.leaf.warm is not None:
            self._running.require(need - len(match.chunks), match.chunks)
            admitted = self._reusing.take_over(match.leaf, match, new_rows)
            self._counts.takeovers += 1
            return admitted
        whole = match.length // self.layout.chunk_tokens
        self._running.require(need - whole, match.chunks[:whole])
        admitted = self._reusing.map(match, tokens, new_rows)
        self._counts.matches += 1
        self._counts.copies += admitted.reuse.copied > 0
        return admitted

    def warm(self, tenant: str, tokens: Tokens) -> bool:
        """Leave a warm slot for the next turn of a recorded conversation: it is mapped at a slot, and counts as used.

        False when no record ends where these tokens do, or someone may be writing behind its end. Takes no chunk.
        Raises OutOfSlots, OutOfChunks.
        """
        leaf = self._tree.find(tenant, tokens, stamp=self._clock()).leaf
        return leaf is not None and self._reusing.warm(leaf, self._tree.path(leaf))

    def prefix_record(
        self, vtensor: VTensor, tenant: str, tokens: Tokens, fence: Fence | None = None, *, label: str = ""
    ) -> None:
        """PrefixRecord and Release: the vTensor's first rows, those of `tokens`, can be matched from now on.

        fence: the last work that was launched on the vTensor, if it may still be under way.
        label: what its leaf is called in pictures from now on; empty: as it was called.
        Its slot stays mapped as a warm extra when it is the only one to end there.
        """
        assert vtensor in self._running.vtensors
        used = self.layout.chunks_for(len(tokens))
        leaf = self._tree.rPush(tenant, tokens, vtensor.chunks[:used])
        _name(leaf, label)
        if leaf is None or leaf.warm is not None or not self._repoint(vtensor, self._tree.path(leaf), len(tokens)):
            self.release(vtensor, fence)
            return
        self._running.guard(vtensor, fence)
        self._running.vtensors.remove(vtensor)
        held = vtensor.chunks
        vtensor.chunks, vtensor.rows = held[:used], used * self.layout.chunk_tokens
        vtensor.shared_rows = len(tokens)
        self._warm.keep(vtensor, leaf)
        self._operations.pFree(held)

    def publish(self, vtensor: VTensor, tenant: str, tokens: Tokens, *, label: str = "") -> None:
        """PrefixRecord of a vTensor that runs on: rows written by completed steps can be matched already.

        Not where the rTree has the same tokens in other chunks: those would be held up by what follows them.
        """
        assert vtensor in self._running.vtensors
        place = self._tree.find(tenant, tokens, stamp=self._clock())
        whole = place.length // self.layout.chunk_tokens
        if place.chunks[:whole] == vtensor.chunks[:whole]:
            leaf = self._tree.grow(place, tenant, tokens, vtensor.chunks[: self.layout.chunks_for(len(tokens))])
            _name(leaf, label)

    def release(self, vtensor: VTensor, fence: Fence | None = None) -> None:
        """Release: chunks and slot go back to their sets; what is mapped stays until it is in the way.

        fence: the last work that was launched on the vTensor, if it may still be under way.
        """
        self._running.release(vtensor, fence)

    def distrust(self, vtensor: VTensor) -> None:
        """Release a vTensor whose numbers went wrong; forget what may have them too; no free chunk keeps any."""
        self.release(vtensor)
        self._tree.clear(Why.DISTRUSTED)
        self._operations.give_back(0)

    def flush(self) -> None:
        """Forget every recorded prefix and give free memory back, down to the reserve."""
        self._tree.clear()
        self.give_back()

    def give_back(self) -> int:
        """Return free chunks above the reserve to the device; how many went."""
        return self._operations.give_back(self._reserve)

    def expire(self, unused: float, most: int = 64) -> None:
        """Forget what was not used for so many seconds, at most so many chunks of it at once."""
        before = self._clock() - unused
        for _ in range(most):
            if not self._tree.evict(before):
                return
            self._counts.evicted_chunks += 1

    def stats(self) -> MemoryStats:
        """Measured now."""
        return measure(self.layout, self._operations, self._tree, self._counts, warm=len(self._warm.leaves))

    def look(self, tenant: str, tokens: Tokens) -> PrefixMemory:
        """What is recorded of these tokens now; changes nothing."""
        return measure_prefix(self.layout, self._tree, tenant, tokens)

    def picture(self, tenant: str, *, most: int, focus: Collection[str] = ()) -> Picture:
        """What this tenant has recorded, at most so many nodes of it; changes nothing.

        focus: labels whose leaves are in it however long they were not used.
        """
        return take_picture(self._tree, tenant, most=most, focus=focus, now=self._clock())

    def device_memory(self) -> DeviceMemory | None:
        """What the device says of itself, whoever uses it; None where it says nothing."""
        return self._operations.driver.device_memory()

    def audit(self) -> None:
        """Prove that the books balance: see audit.py. Raises AssertionError."""
        audit(self.layout, self._operations, self._tree, self._running.vtensors, self._warm.leaves)

    def close(self) -> None:
        """Everything back to the device, whoever holds it."""
        self._operations.close()

    def _repoint(self, vtensor: VTensor, path: list[Chunk], length: int) -> bool:
        """Make a vTensor's page table the tree's own, dropping duplicates; False if its slot cannot serve that path."""
        if length % self.layout.chunk_tokens and path[-1] is not vtensor.chunks[len(path) - 1]:
            return False  # someone else may be writing the rows after the path's end
        for page, (own, recorded) in enumerate(zip(vtensor.chunks, path, strict=False)):
            if own is not recorded:
                try:
                    self._operations.Map(vtensor.slot, page, [recorded], writable=False)
                except DriverError:
                    return False
                self._operations.pset.take(recorded)
                vtensor.chunks[page] = recorded
                self._operations.pFree([own])
        return True

    def _evict(self) -> bool:
        evicted = self._tree.evict()
        self._counts.evicted_chunks += evicted
        return evicted


def _name(leaf: Node | None, label: str) -> None:
    if leaf is not None and label:
        leaf.label = label
