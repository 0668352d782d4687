"""The memory of one conversation, looked up by its tokens: what is recorded of it, and where that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from vtensor.layout import KVLayout
from vtensor.node import Tokens
from vtensor.pool import Chunk
from vtensor.reuse import Stop
from vtensor.rtree import RTree


@dataclass(frozen=True, slots=True)
class PrefixMemory:
    """tokens: asked for.  recorded: how many of the first of them can be reused now.

    physical_chunks = private + shared, each counted once. shared: part of another record too, or run on now.
    mapped: chunks of these by the index of each slot where they are mapped; a chunk counts at every address.
    warm: whether the next turn can take a slot over without a call.
    stop: why no more is recorded; None when all is.
    """

    tokens: int
    recorded: int
    chunk_bytes: int
    physical_chunks: int
    shared_chunks: int
    mapped: Mapping[int, int]
    warm: bool
    stop: Stop | None

    def bytes(self, chunks: int) -> int:
        return chunks * self.chunk_bytes


def measure_prefix(layout: KVLayout, tree: RTree, tenant: str, tokens: Tokens) -> PrefixMemory:
    """Changes nothing: what is only looked at is not used by it."""
    place = tree.find(tenant, tokens)
    chunks = tree.page_table(place)
    alone: set[Chunk] = set()
    if place.node is not None and not place.node.children:
        alone.update(chunk for chunk in place.node.chunks if chunk.references == 1)
    return PrefixMemory(
        tokens=len(tokens),
        recorded=place.length,
        chunk_bytes=layout.chunk_bytes,
        physical_chunks=len(chunks),
        shared_chunks=sum(chunk not in alone for chunk in chunks),
        mapped=dict(sorted(Counter(slot.index for chunk in chunks for slot, _ in chunk.mappings).items())),
        warm=place.leaf is not None and place.leaf.warm is not None,
        stop=tree.stop(tenant, tokens, place),
    )
