"""vTensor Manager: Create, Extend, PrefixRecord, PrefixMatch and Release (vTensor paper, section 5.4).

Everything here happens in one thread (see mapper.py), the bookkeeping and the driver's calls. Each act is all or
nothing.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from vtensor.audit import audit
from vtensor.driver.base import Address, Driver, DriverError, Fence, OutOfMemory
from vtensor.layout import KVLayout
from vtensor.operations import Operations, OutOfChunks, OutOfSlots
from vtensor.pool import Chunk, Slot, VTensor
from vtensor.rtree import Node, RTree, Tokens
from vtensor.stats import Counts, MemoryStats, measure


class Origin(Enum):
    """Where a vTensor's first rows came from."""

    CREATED = "created"
    MAPPED = "mapped"
    TAKEN_OVER = "taken over"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A vTensor for a request; its first `cached` rows are written already.

    mapped: chunks mapped from the match.  copied: rows of a tail chunk that were copied.
    """

    vtensor: VTensor
    cached: int
    origin: Origin
    mapped: int = 0
    copied: int = 0


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
        self._tree = RTree(
            layout.chunk_tokens,
            take=self._operations.pset.take,
            drop=self._operations.pFree,
            unwarm=self._unwarm,
            clock=clock,
        )
        self._warm: OrderedDict[VTensor, Node] = OrderedDict()
        self._live: set[VTensor] = set()
        self._counts = Counts()

    def bind_thread(self) -> None:
        """Called once by the thread that will do the acts."""
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
        self._require(self.layout.chunks_for(rows) + headroom)
        vtensor = VTensor(self._slot(), [], shared_rows=0, rows=0)
        self._live.add(vtensor)
        try:
            self.extend(vtensor, rows)
        except (OutOfChunks, DriverError):
            self.release(vtensor)
            raise
        return vtensor

    def extend(self, vtensor: VTensor, rows: int) -> None:
        """Extend: map chunks until `rows` rows are ready. Raises OutOfChunks, the vTensor being as it was."""
        assert vtensor in self._live
        have, need = len(vtensor.chunks), self.layout.chunks_for(rows)
        assert need <= self.layout.slot_chunks, f"{rows} rows do not fit a slot of {self.layout.slot_tokens}"
        if need <= have:
            return
        self._require(need - have)
        chunks = self._operations.pAlloc(vtensor.slot, have, need - have, self._evict)
        try:
            self._operations.Map(vtensor.slot, have, chunks, writable=True)
        except DriverError as error:
            self._operations.pFree(chunks)
            raise _shortage(error) from error
        vtensor.chunks += chunks
        vtensor.rows = need * self.layout.chunk_tokens

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
            vtensor = self.create(new_rows, headroom=headroom)
            self._counts.creates += 1
            return Admitted(vtensor, 0, Origin.CREATED)
        need = self.layout.chunks_for(match.length + new_rows) + headroom
        if match.leaf is not None and match.leaf.warm is not None:
            self._require(need - len(match.chunks), match.chunks)
            vtensor = self._take_over(match.leaf, match.leaf.warm, new_rows)
            self._counts.takeovers += 1
            return Admitted(vtensor, match.length, Origin.TAKEN_OVER)
        whole = match.length // self.layout.chunk_tokens
        self._require(need - whole, match.chunks[:whole])
        try:
            admitted = self._map_match(match.chunks, match.length, new_rows)
        except OutOfChunks:
            if match.length % self.layout.chunk_tokens == 0:
                raise
            # Holding the chunk that is copied from may be what is one too many.
            admitted = self._map_match(match.chunks[:whole], whole * self.layout.chunk_tokens, new_rows)
        self._counts.matches += 1
        self._counts.copies += admitted.copied > 0
        return admitted

    def prefix_record(self, vtensor: VTensor, tenant: str, tokens: Tokens, fence: Fence | None = None) -> None:
        """PrefixRecord and Release: the vTensor's first rows, those of `tokens`, can be matched from now on.

        fence: the last work that was launched on the vTensor, if it may still be under way.
        Its slot stays mapped as a warm extra when it is the only one to end there.
        """
        assert vtensor in self._live
        used = self.layout.chunks_for(len(tokens))
        leaf = self._tree.rPush(tenant, tokens, vtensor.chunks[:used])
        if leaf is None or leaf.warm is not None or not self._repoint(vtensor, self._tree.path(leaf), len(tokens)):
            self.release(vtensor, fence)
            return
        self._guard(vtensor, fence)
        self._live.remove(vtensor)
        held = vtensor.chunks
        vtensor.chunks, vtensor.rows = held[:used], used * self.layout.chunk_tokens
        vtensor.shared_rows = len(tokens)
        leaf.warm = vtensor
        self._warm[vtensor] = leaf
        self._operations.pFree(held)

    def publish(self, vtensor: VTensor, tenant: str, tokens: Tokens) -> None:
        """PrefixRecord of a vTensor that runs on: rows written by completed steps can be matched already.

        Not where the rTree has the same tokens in other chunks: those would be held up by what follows them.
        """
        assert vtensor in self._live
        match = self._tree.rPrefixMatch(tenant, tokens)
        whole = match.length // self.layout.chunk_tokens
        if match.chunks[:whole] == vtensor.chunks[:whole]:
            self._tree.rPush(tenant, tokens, vtensor.chunks[: self.layout.chunks_for(len(tokens))])

    def release(self, vtensor: VTensor, fence: Fence | None = None) -> None:
        """Release: chunks and slot go back to their sets; what is mapped stays until it is in the way.

        fence: the last work that was launched on the vTensor, if it may still be under way.
        """
        assert vtensor in self._live, "released twice"
        self._guard(vtensor, fence)
        self._live.remove(vtensor)
        self._operations.vFree(vtensor.slot)
        self._operations.pFree(vtensor.chunks)
        vtensor.chunks, vtensor.rows = [], 0

    def distrust(self, vtensor: VTensor) -> None:
        """Release a vTensor whose numbers went wrong; forget what may have them too; no free chunk keeps any."""
        self.release(vtensor)
        self._tree.clear()
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
        return measure(self.layout, self._operations, self._tree, self._counts, warm=len(self._warm))

    def audit(self) -> None:
        """Prove that the books balance: see audit.py. Raises AssertionError."""
        audit(self.layout, self._operations, self._tree, self._live, self._warm)

    def close(self) -> None:
        """Everything back to the device, whoever holds it."""
        self._operations.close()

    def _take_over(self, leaf: Node, vtensor: VTensor, new_rows: int) -> VTensor:
        leaf.warm = None
        del self._warm[vtensor]
        self._live.add(vtensor)
        recorded = list(vtensor.chunks)
        for chunk in recorded:
            self._operations.pset.take(chunk)
        try:
            self.extend(vtensor, vtensor.shared_rows + new_rows)
        except (OutOfChunks, DriverError):
            self._live.remove(vtensor)
            self._operations.pFree(recorded)
            leaf.warm = vtensor
            self._warm[vtensor] = leaf
            raise
        return vtensor

    def _map_match(self, chunks: list[Chunk], length: int, new_rows: int) -> Admitted:
        whole, tail = divmod(length, self.layout.chunk_tokens)
        for chunk in chunks:
            self._operations.pset.take(chunk)
        source = chunks[whole:]
        try:
            slot = self._slot()
        except OutOfSlots:
            self._operations.pFree(chunks)
            raise
        vtensor = VTensor(slot, chunks[:whole], shared_rows=length, rows=whole * self.layout.chunk_tokens)
        self._live.add(vtensor)
        try:
            self._operations.Map(slot, 0, vtensor.chunks, writable=False)
            self.extend(vtensor, length + new_rows)
            if tail:
                self._operations.copy_rows(slot, whole, source[0], tail)
        except (OutOfChunks, DriverError) as error:
            self.release(vtensor)
            raise _shortage(error) from error
        finally:
            self._operations.pFree(source)
        return Admitted(vtensor, length, Origin.MAPPED, mapped=whole, copied=tail)

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

    def _require(self, chunks: int, matched: Sequence[Chunk] = ()) -> None:
        """Raises OutOfChunks when so many could not be had even by evicting all that nobody runs on: nothing is
        evicted in vain.

        matched: chunks about to be run on.
        """
        pset = self._operations.pset
        obtainable = pset.free + self._operations.limit - len(pset)
        if obtainable < chunks:
            held = {chunk for vtensor in self._live for chunk in vtensor.chunks}.union(matched)
            obtainable = self._operations.limit - len(held)
        if obtainable < chunks:
            raise OutOfChunks(
                f"{chunks} chunks of {self.layout.chunk_tokens} tokens are needed and {obtainable} can be had; "
                f"the limit is {self._operations.limit}"
            )

    def _slot(self) -> Slot:
        if self._operations.vset.free == 0 and self._warm:
            vtensor, leaf = next(iter(self._warm.items()))
            leaf.warm = None
            self._unwarm(vtensor)
        return self._operations.vAlloc()

    def _unwarm(self, vtensor: VTensor) -> None:
        del self._warm[vtensor]
        self._operations.vFree(vtensor.slot)

    def _guard(self, vtensor: VTensor, fence: Fence | None) -> None:
        if fence is not None:
            self._operations.guard(vtensor.slot, fence)

    def _evict(self) -> bool:
        evicted = self._tree.evict()
        self._counts.evicted_chunks += evicted
        return evicted


def _shortage(error: Exception) -> Exception:
    """A driver out of memory is a manager out of chunks: the caller may wait or preempt."""
    return OutOfChunks(str(error)) if isinstance(error, OutOfMemory) else error
