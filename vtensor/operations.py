"""vTensor Operation: pAlloc, vAlloc, Map, Unmap, pFree, vFree (vTensor paper, section 5.3).

Release is lazy: a freed chunk or slot keeps what is mapped until the addresses or the memory are wanted, so that most
allocations find what they need in place and call nothing. Every operation does all it was asked, or raises and undoes
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import ParamSpec, TypeVar

from vtensor.driver.base import Address, Driver, DriverError, Fence, Handle, OutOfMemory
from vtensor.layout import KVLayout
from vtensor.pool import Chunk, Page, PSet, Slot, VSet

P = ParamSpec("P")
T = TypeVar("T")


SCRATCH = 0
"""The slot whose first row is mapped always and belongs to nobody: what a kernel writes there no one reads. With it the
arena begins at an address that is mapped, as some who are handed its address insist on."""


class OutOfChunks(MemoryError):
    """No chunk is free, none may be created, none can be evicted."""


class OutOfSlots(MemoryError):
    """Every slot is in use by a running vTensor."""


class Operations:
    """The paper's operations on one arena.

    slots: how many. Two more are kept back: SCRATCH, the first, and one to reach chunks that are mapped nowhere.
    limit: chunks that may exist at once.
    calls, given_back: of the driver, and chunks that went back to the device, since the start.  mapped: chunks, each at
        every address, now.
    Raises DriverError.
    """

    def __init__(self, driver: Driver, layout: KVLayout, *, slots: int, limit: int) -> None:
        self._driver = driver
        self._layout = layout
        self.limit = limit
        self.calls = 0
        self.given_back = 0
        self.mapped = 0
        self._arena_bytes = (slots + 2) * layout.slot_bytes
        self.arena = driver.reserve(self._arena_bytes)
        self._scratch_bytes = -(-layout.token_stride // driver.granularity) * driver.granularity
        self._scratch = self._map_scratch()
        self.pset = PSet()
        self.vset = VSet(self.arena, slots, layout.slot_bytes, layout.slot_chunks)
        staging = Address(self.arena + (slots + 1) * layout.slot_bytes)
        self._staging = Slot(slots + 1, staging, [None] * layout.slot_chunks)
        self._staging_page = 0

    @property
    def driver(self) -> Driver:
        return self._driver

    def every_slot(self) -> tuple[Slot, ...]:
        """All slots that chunks are mapped in, the one for reaching unmapped chunks last."""
        return (*self.vset, self._staging)

    def vAlloc(self) -> Slot:
        """Addresses for one sequence. Raises OutOfSlots."""
        slot = self.vset.take()
        if slot is None:
            raise OutOfSlots(f"all {len(self.vset)} slots are in use; raise the number of slots")
        return slot

    def vFree(self, slot: Slot) -> None:
        """Give a slot back; what is mapped there stays until it is in the way."""
        self.vset.give(slot)

    def pAlloc(self, slot: Slot, first: int, count: int, evict: Callable[[], bool]) -> list[Chunk]:
        """Chunks for `count` pages of a slot from page `first` on, each with one reference.

        A free chunk that is still mapped at its page comes first, then any free one, then a new one below the limit,
        then what `evict` frees (it returns False when it can free no more). Raises OutOfChunks.
        """
        taken: list[Chunk] = []
        try:
            for page in range(first, first + count):
                chunk = self._leftover(slot, page) or self._free_or_new() or self._evicted(evict)
                self.pset.take(chunk)
                taken.append(chunk)
        except (OutOfChunks, DriverError):
            self.pFree(taken)
            raise
        return taken

    def pFree(self, chunks: Sequence[Chunk]) -> None:
        """A vTensor lets go of each chunk. One that becomes free keeps one leftover mapping at most."""
        for chunk in reversed(chunks):
            if self.pset.drop(chunk):
                self._keep_one_mapping(chunk)

    def pForget(self, chunks: Sequence[Chunk]) -> None:
        """The rTree lets go of each chunk, as a vTensor does."""
        for chunk in reversed(chunks):
            if self.pset.forget(chunk):
                self._keep_one_mapping(chunk)

    def Map(self, slot: Slot, first: int, chunks: Sequence[Chunk], *, writable: bool) -> None:
        """Map chunks at consecutive pages of a slot; a page that is as wanted already costs no call.

        Raises DriverError; pages mapped by this call are unmapped again, those that were in the way stay unmapped.
        """
        for page, chunk in enumerate(chunks, first):
            self._clear_the_way(slot, page, chunk, writable=writable)
        missing = [(page, chunk) for page, chunk in enumerate(chunks, first) if slot.pages[page] is None]
        mapped: list[int] = []
        try:
            for run in _runs(missing):
                self._map_run(slot, run, writable=writable)
                mapped += [page for page, _ in run]
            for page in range(first, first + len(chunks)):
                self._make_ready(slot, page, writable=writable)
        except DriverError:
            for page in mapped:
                self.Unmap(slot, page)
            raise

    def Unmap(self, slot: Slot, page: int) -> None:
        """Take one page's mapping away, once the last work that was launched on it is over."""
        entry = slot.pages[page]
        assert entry is not None
        slot.fence.wait()
        entry.fence.wait()
        self._call(self._driver.unmap, self._address(slot, page), self._layout.chunk_bytes)
        slot.pages[page] = None
        entry.chunk.mappings.remove((slot, page))
        self.mapped -= 1

    def copy_rows(self, target: Slot, page: int, source: Chunk, rows: int) -> None:
        """Copy the first rows of a chunk to a mapped page, after the work launched so far."""
        slot, at = next(((s, p) for s, p in source.mappings if s is not target), (None, 0))
        if slot is None:
            slot, at = self._staging, self._staging_page
            self._staging_page = (self._staging_page + 1) % len(self._staging.pages)
            self.Map(slot, at, [source], writable=False)
        size = rows * self._layout.token_stride
        fence = self._call(self._driver.copy, self._address(target, page), self._address(slot, at), size)
        for where, number in ((target, page), (slot, at)):
            self._guard_page(where, number, fence)

    def guard(self, slot: Slot, fence: Fence) -> None:
        """Unmap nothing of a slot before this work is over. Work is queued in order: a later fence stands for all."""
        if not fence.done():
            slot.fence = fence

    def give_back(self, keep: int) -> int:
        """Release free chunks beyond `keep` to the device, longest free first; returns how many went."""
        surplus = list(self.pset.free_chunks())[: max(0, self.pset.free - keep)]
        for chunk in surplus:
            for slot, page in list(chunk.mappings):
                self.Unmap(slot, page)
            self._call(self._driver.release, chunk.handle, self._layout.chunk_bytes)
            self.pset.remove(chunk)
            self.given_back += 1
        return len(surplus)

    def close(self) -> None:
        """Unmap and release everything, held or not, and free the addresses."""
        for slot in self.every_slot():
            for page, entry in enumerate(slot.pages):
                if entry is not None:
                    self.Unmap(slot, page)
        self._call(self._driver.unmap, self.arena, self._scratch_bytes)
        self._call(self._driver.release, self._scratch, self._scratch_bytes)
        for chunk in list(self.pset):
            self._call(self._driver.release, chunk.handle, self._layout.chunk_bytes)
        self._call(self._driver.unreserve, self.arena, self._arena_bytes)
        self._driver.close()

    def _map_scratch(self) -> Handle:
        """The least memory that holds a row, outside the pSet; without it nothing of the arena is kept."""
        taken: list[Callable[[], None]] = [lambda: self._driver.unreserve(self.arena, self._arena_bytes)]
        try:
            handle = self._call(self._driver.create, self._scratch_bytes)
            taken.append(lambda: self._driver.release(handle, self._scratch_bytes))
            self._call(self._driver.map, self.arena, self._scratch_bytes, handle, writable=True)
            taken.append(lambda: self._driver.unmap(self.arena, self._scratch_bytes))
            self._call(self._driver.clear, self.arena, self._scratch_bytes).wait()
        except DriverError:
            for undo in reversed(taken):
                undo()
            raise
        return handle

    def _clear_the_way(self, slot: Slot, page: int, chunk: Chunk, *, writable: bool) -> None:
        """Unmap another chunk from the page; and a chunk about to be written from everywhere else: it belongs to its
        new owner alone, nobody may still read it.
        """
        if writable:
            for where in [where for where in chunk.mappings if where != (slot, page)]:
                self.Unmap(*where)
        entry = slot.pages[page]
        if entry is not None and entry.chunk is not chunk:
            self.Unmap(slot, page)

    def _map_run(self, slot: Slot, run: Sequence[tuple[int, Chunk]], *, writable: bool) -> None:
        """Chunks at consecutive pages where nothing is mapped, all or none."""
        self.calls += len(run)
        handles = [chunk.handle for _, chunk in run]
        self._driver.map(self._address(slot, run[0][0]), self._layout.chunk_bytes, *handles, writable=writable)
        for page, chunk in run:
            slot.pages[page] = Page(chunk, writable)
            chunk.mappings.append((slot, page))
        self.mapped += len(run)

    def _make_ready(self, slot: Slot, page: int, *, writable: bool) -> None:
        """What is mapped at a page allows what is wanted, and holds finite numbers."""
        entry, address, size = slot.pages[page], self._address(slot, page), self._layout.chunk_bytes
        assert entry is not None
        if entry.writable != writable:
            self._call(self._driver.protect, address, size, writable=writable)
            entry.writable = writable
        if writable and not entry.chunk.cleared:
            self._guard_page(slot, page, self._call(self._driver.clear, address, size))
            entry.chunk.cleared = True

    def _guard_page(self, slot: Slot, page: int, fence: Fence) -> None:
        """Copies wait for the steps that were launched before them: whoever wants another page need not."""
        entry = slot.pages[page]
        assert entry is not None
        if not fence.done():
            entry.fence = fence

    def _address(self, slot: Slot, page: int) -> Address:
        return Address(slot.address + page * self._layout.chunk_bytes)

    def _call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.calls += 1
        return function(*args, **kwargs)

    def _keep_one_mapping(self, chunk: Chunk) -> None:
        for slot, page in chunk.mappings[1:]:
            self.Unmap(slot, page)

    def _leftover(self, slot: Slot, page: int) -> Chunk | None:
        entry = slot.pages[page]
        return entry.chunk if entry is not None and entry.chunk.references == 0 else None

    def _free_or_new(self) -> Chunk | None:
        for chunk in self.pset.free_chunks():
            return chunk
        if len(self.pset) >= self.limit:
            return None
        try:
            handle = self._call(self._driver.create, self._layout.chunk_bytes)
        except OutOfMemory:
            return None
        return self.pset.add(handle)

    def _evicted(self, evict: Callable[[], bool]) -> Chunk:
        while evict():
            for chunk in self.pset.free_chunks():
                return chunk
        raise OutOfChunks(
            f"all {len(self.pset)} chunks of {self._layout.chunk_tokens} tokens are in use; the limit is {self.limit}"
        )


def _runs(places: Sequence[tuple[int, Chunk]]) -> Iterator[list[tuple[int, Chunk]]]:
    """Places of ascending pages, those that follow one another together."""
    for _, run in groupby(enumerate(places), lambda each: each[1][0] - each[0]):
        yield [place for _, place in run]
