"""The vTensor Pool: what exists and what holds it (vTensor paper, section 5.2). Bookkeeping only, no driver calls.

pSet holds the physical chunks, counted like hard links; vSet holds the virtual addresses, the slots, each with the page
table of what is mapped there now.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from vtensor.driver.base import Address, Fence, Handle, Passed


@dataclass(slots=True, eq=False)
class Chunk:
    """One physical chunk (the paper's PC and its handle PH).

    references: vTensors whose page table holds it, and one for the rTree if it does. At zero the chunk is free.
    recorded: how many of them are the rTree's.
    mappings: the addresses it is mapped at, as (slot, page). Those of a free chunk are leftovers.
    cleared: whether it was zeroed after its creation; a masked row is still multiplied, so it must hold finite numbers.
    """

    handle: Handle
    references: int = 0
    recorded: int = 0
    cleared: bool = False
    mappings: list[tuple[Slot, int]] = field(default_factory=list)

    @property
    def in_use(self) -> bool:
        """Whether a vTensor holds it: evicting it would free nothing."""
        return self.references > self.recorded


@dataclass(slots=True)
class Page:
    """What is mapped at one chunk's width of addresses.

    fence: the last copy or clearing that touched these addresses.
    """

    chunk: Chunk
    writable: bool
    fence: Fence = field(default_factory=Passed)


@dataclass(slots=True, eq=False)
class Slot:
    """One virtual address (VA) of the longest sequence's length.

    pages: what is mapped now, page by page; leftovers of earlier owners included.
    fence: the last step, of those that may still be under way, that touched any of these addresses.
    """

    index: int
    address: Address
    pages: list[Page | None]
    fence: Fence = field(default_factory=Passed)


@dataclass(slots=True, eq=False)
class VTensor:
    """A slot with its page table: contiguous to a kernel, mapped chunk by chunk (vTensor paper, section 5.1).

    chunks: the page table; chunk i holds the rows from i * chunk_tokens on. Each is referenced.
    shared_rows: rows that came from a match: their whole chunks are mapped read-only, and nobody writes below this row.
    rows: rows mapped and ready to be written or read.
    """

    slot: Slot
    chunks: list[Chunk]
    shared_rows: int
    rows: int


class PSet:
    """Every physical chunk, free or held. private: how many have one reference.  in_use: how many a vTensor holds."""

    def __init__(self) -> None:
        self._chunks: dict[Handle, Chunk] = {}
        self._free: OrderedDict[Handle, Chunk] = OrderedDict()
        self.private = 0
        self.in_use = 0

    def __len__(self) -> int:
        return len(self._chunks)

    def __iter__(self) -> Iterator[Chunk]:
        return iter(self._chunks.values())

    @property
    def free(self) -> int:
        """Chunks nobody holds."""
        return len(self._free)

    def free_chunks(self) -> Iterable[Chunk]:
        """Longest free first."""
        return self._free.values()

    def add(self, handle: Handle) -> Chunk:
        """A chunk that was just created; free until it is taken."""
        assert handle not in self._chunks
        chunk = self._chunks[handle] = self._free[handle] = Chunk(handle)
        return chunk

    def remove(self, chunk: Chunk) -> None:
        """Forget a free chunk that is mapped nowhere."""
        assert chunk.references == 0
        assert not chunk.mappings
        del self._free[chunk.handle], self._chunks[chunk.handle]

    def take(self, chunk: Chunk) -> None:
        """One more vTensor holds it."""
        self.in_use += not chunk.in_use
        self._refer(chunk)

    def drop(self, chunk: Chunk) -> bool:
        """One vTensor less; whether the chunk is free now."""
        assert chunk.in_use, "dropping a reference that no vTensor has"
        free = self._let_go(chunk)
        self.in_use -= not chunk.in_use
        return free

    def record(self, chunk: Chunk) -> None:
        """The rTree holds it; while it replaces a leaf's end, once more."""
        chunk.recorded += 1
        self._refer(chunk)

    def forget(self, chunk: Chunk) -> bool:
        """The rTree holds it once less; whether the chunk is free now."""
        assert chunk.recorded > 0, "forgetting a chunk that is not recorded"
        chunk.recorded -= 1
        return self._let_go(chunk)

    def _refer(self, chunk: Chunk) -> None:
        if chunk.references == 0:
            del self._free[chunk.handle]
            self.private += 1
        elif chunk.references == 1:
            self.private -= 1
        chunk.references += 1

    def _let_go(self, chunk: Chunk) -> bool:
        chunk.references -= 1
        if chunk.references == 0:
            self._free[chunk.handle] = chunk
            self.private -= 1
        elif chunk.references == 1:
            self.private += 1
        return chunk.references == 0


class VSet:
    """Every slot that a sequence can have, free or taken; their indices begin with 1, after the scratch slot."""

    def __init__(self, base: Address, slots: int, slot_bytes: int, slot_chunks: int) -> None:
        self._slots = [
            Slot(index, Address(base + index * slot_bytes), [None] * slot_chunks) for index in range(1, slots + 1)
        ]
        self._free: OrderedDict[int, Slot] = OrderedDict((slot.index, slot) for slot in self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    @property
    def free(self) -> int:
        """Slots nobody has."""
        return len(self._free)

    def is_free(self, slot: Slot) -> bool:
        return slot.index in self._free

    def take(self) -> Slot | None:
        """The slot given back last: what its new owner needs may still be mapped there."""
        return self._free.popitem()[1] if self._free else None

    def give(self, slot: Slot) -> None:
        assert slot.index not in self._free
        self._free[slot.index] = slot
