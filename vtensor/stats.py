"""What the memory holds, measured from the books."""

from __future__ import annotations

from dataclasses import dataclass

from vtensor.layout import KVLayout
from vtensor.operations import Operations
from vtensor.rtree import RTree


@dataclass(slots=True)
class Counts:
    """Acts since the start."""

    creates: int = 0
    matches: int = 0
    takeovers: int = 0
    copies: int = 0
    evicted_chunks: int = 0


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Chunks, bytes and tokens. physical = free + private + shared, each chunk counted once.

    private: held by one vTensor, running or recorded.  shared: held by several, or by a running one and the rTree.
    mapped: counts a chunk at every address it is mapped at.  recorded_tokens: tokens in the rTree.
    driver_calls: memory-mapping calls since the start.  given_back_chunks: to the device, since the start.
    """

    chunk_tokens: int
    chunk_bytes: int
    limit_chunks: int
    physical_chunks: int
    free_chunks: int
    private_chunks: int
    shared_chunks: int
    mapped_chunks: int
    recorded_tokens: int
    recorded_nodes: int
    slots: int
    slots_in_use: int
    slots_warm: int
    driver_calls: int
    creates: int
    matches: int
    takeovers: int
    copies: int
    evicted_chunks: int
    given_back_chunks: int

    def bytes(self, chunks: int) -> int:
        return chunks * self.chunk_bytes

    def tokens(self, chunks: int) -> int:
        return chunks * self.chunk_tokens


def measure(layout: KVLayout, operations: Operations, tree: RTree, counts: Counts, *, warm: int) -> MemoryStats:
    pset, vset = operations.pset, operations.vset
    return MemoryStats(
        chunk_tokens=layout.chunk_tokens,
        chunk_bytes=layout.chunk_bytes,
        limit_chunks=operations.limit,
        physical_chunks=len(pset),
        free_chunks=pset.free,
        private_chunks=pset.private,
        shared_chunks=len(pset) - pset.free - pset.private,
        mapped_chunks=operations.mapped,
        recorded_tokens=tree.extents.total.tokens,
        recorded_nodes=tree.extents.total.nodes,
        slots=len(vset),
        slots_in_use=len(vset) - vset.free - warm,
        slots_warm=warm,
        driver_calls=operations.calls,
        creates=counts.creates,
        matches=counts.matches,
        takeovers=counts.takeovers,
        copies=counts.copies,
        evicted_chunks=counts.evicted_chunks,
        given_back_chunks=operations.given_back,
    )
