"""The proof that the books balance, after any sequence of acts: mappings equal references, nothing leaks, nobody can
write what another reads. Slow and complete; for tests, soaks and a suspicious operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from vtensor.extent import Extents
from vtensor.layout import KVLayout
from vtensor.node import Node
from vtensor.operations import Operations
from vtensor.pool import Chunk, VTensor
from vtensor.rtree import RTree


def audit(
    layout: KVLayout,
    operations: Operations,
    tree: RTree,
    live: Iterable[VTensor],
    warm: Mapping[VTensor, Node],
) -> None:
    """Raises AssertionError naming what does not balance."""
    running = list(live)
    _mappings_mirror_pages(operations)
    _tree_is_a_radix_tree(layout, tree)
    _references_equal_holders(operations, tree, running)
    for vtensor in (*running, *warm):
        _page_table_is_mapped(layout, vtensor)
    for vtensor, leaf in warm.items():
        assert leaf.warm is vtensor, "a warm slot whose leaf does not know it"
        assert vtensor.shared_rows == leaf.end, "a warm slot that does not end where its leaf ends"
        assert vtensor.chunks == tree.path(leaf), "a warm slot mapped over other chunks than its leaf's path"
    _slots_are_owned_once(operations, [*running, *warm])
    _nobody_writes_what_another_reads(layout, running)


def _mappings_mirror_pages(operations: Operations) -> None:
    slots = operations.every_slot()
    mapped = Counter(
        (entry.chunk.handle, slot.index, page)
        for slot in slots
        for page, entry in enumerate(slot.pages)
        if entry is not None
    )
    known = Counter((chunk.handle, slot.index, page) for chunk in operations.pset for slot, page in chunk.mappings)
    assert mapped == known, f"pages and mappings differ: {(mapped - known) + (known - mapped)}"
    assert operations.mapped == mapped.total(), "more or fewer mappings than were counted"
    for chunk in operations.pset.free_chunks():
        assert len(chunk.mappings) <= 1, f"a free chunk has {len(chunk.mappings)} leftover mappings"
    assert len(operations.pset) <= operations.limit, "more chunks than the limit"


def _tree_is_a_radix_tree(layout: KVLayout, tree: RTree) -> None:
    counted = Extents()
    for node in tree.walk():
        counted.add(node.tenant, tokens=len(node.tokens), nodes=1, chunks=len(node.chunks))
        first = node.start // layout.chunk_tokens
        last = node.end // layout.chunk_tokens if node.children else layout.chunks_for(node.end)
        assert len(node.chunks) == last - first, "a node that holds other pages than its own"
        if node.parent is not None:
            assert len(node.tokens) > 0, "a node without tokens"
            assert node.queued or node.children, "a leaf that can never be evicted"
        for token, child in node.children.items():
            assert child.parent is node
            assert child.start == node.end
            assert int(child.tokens[0]) == token
    for leaf in tree.leaves:
        assert not leaf.children, "an inner node that waits for eviction"
        assert leaf.parent is not None, "a node that waits for eviction and is in no tree"
    assert counted == tree.extents, "the rTree's own counts are off"


def _references_equal_holders(operations: Operations, tree: RTree, running: list[VTensor]) -> None:
    holders: Counter[Chunk] = Counter(chunk for node in tree.walk() for chunk in node.chunks)
    doubled = [chunk.handle for chunk, times in holders.items() if times > 1]
    assert not doubled, f"chunks held by two nodes: {doubled}"
    recorded = {chunk for chunk in operations.pset if chunk.recorded}
    assert recorded == set(holders), "chunks that are recorded and not in the rTree, or the other way round"
    for vtensor in running:
        holders.update(vtensor.chunks)
    wrong = {chunk.handle: (chunk.references, holders[chunk]) for chunk in operations.pset}
    wrong = {handle: pair for handle, pair in wrong.items() if pair[0] != pair[1]}
    assert not wrong, f"chunk: (references, holders) {wrong}"
    references = Counter(chunk.references for chunk in operations.pset)
    assert (operations.pset.free, operations.pset.private) == (references[0], references[1])
    assert operations.pset.in_use == len({chunk for vtensor in running for chunk in vtensor.chunks})


def _page_table_is_mapped(layout: KVLayout, vtensor: VTensor) -> None:
    assert vtensor.rows == len(vtensor.chunks) * layout.chunk_tokens
    for page, chunk in enumerate(vtensor.chunks):
        entry = vtensor.slot.pages[page]
        assert entry is not None, f"page {page} of slot {vtensor.slot.index} is not mapped"
        assert entry.chunk is chunk, f"page {page} of slot {vtensor.slot.index} maps another chunk"
        if (page + 1) * layout.chunk_tokens > vtensor.shared_rows:
            assert entry.writable, f"page {page} of slot {vtensor.slot.index} cannot be written"


def _slots_are_owned_once(operations: Operations, owners: list[VTensor]) -> None:
    owned = Counter(vtensor.slot.index for vtensor in owners)
    for slot in operations.vset:
        assert owned[slot.index] == (not operations.vset.is_free(slot)), f"slot {slot.index} is lost or owned twice"


def _nobody_writes_what_another_reads(layout: KVLayout, running: list[VTensor]) -> None:
    """A row at or past a vTensor's shared rows lies in a chunk that no other vTensor maps unless read-only below it."""
    readers: Counter[Chunk] = Counter()
    for vtensor in running:
        readers.update(vtensor.chunks[: vtensor.shared_rows // layout.chunk_tokens])
    written: Counter[Chunk] = Counter()
    for vtensor in running:
        written.update(vtensor.chunks[vtensor.shared_rows // layout.chunk_tokens :])
    twice = [chunk.handle for chunk, writers in written.items() if writers > 1]
    assert not twice, f"chunks that two vTensors may write: {twice}"
