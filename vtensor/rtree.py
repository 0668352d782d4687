"""rTree: recorded vTensors, found by their token ids (vTensor paper, sections 5.2 and 5.3.3).

A radix tree for each tenant. A node is a run of tokens that some recorded vTensors have in common; a leaf's path is the
whole of one recorded vTensor. Every physical chunk on a path is held exactly once, by the node in which the chunk's
last recorded token lies, so a path's page table is its nodes' chunks in order. Token ids are compared, never only
hashed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from math import inf

import numpy as np

from vtensor.extent import Extents
from vtensor.leaves import LeafQueue
from vtensor.match import Match, Place
from vtensor.node import Node, Tokens, agreement
from vtensor.past import Past
from vtensor.pool import Chunk, VTensor
from vtensor.reuse import Stop, Why


class RTree:
    """chunk_tokens: tokens of one chunk.  take, drop: count and uncount a reference of the chunks held here.

    unwarm: called with the vTensor of a leaf that no longer ends where that vTensor ends.
    clock: seconds, never backwards.
    """

    def __init__(
        self,
        chunk_tokens: int,
        *,
        take: Callable[[Chunk], None],
        drop: Callable[[Sequence[Chunk]], None],
        unwarm: Callable[[VTensor], None],
        clock: Callable[[], float],
    ) -> None:
        self._chunk_tokens = chunk_tokens
        self._take, self._drop, self._unwarm = take, drop, unwarm
        self._roots: dict[str, Node] = {}
        self._clock = clock
        self._leaves = LeafQueue()
        self._serials = count()
        self._past = Past()
        self.extents = Extents()

    def rPrefixMatch(self, tenant: str, tokens: Tokens) -> Match:
        """The longest prefix of these tokens recorded for this tenant. What it found counts as used now."""
        place = self.find(tenant, tokens, stamp=self._clock())
        return Match(place.length, self.page_table(place), place.leaf, self.stop(tenant, tokens, place))

    def rPush(self, tenant: str, tokens: Tokens, chunks: Sequence[Chunk]) -> Node | None:
        """Record a vTensor: its tokens, and the chunks of its page table that hold them.

        Where the tree has a prefix already it keeps its own chunks. Returns the leaf that ends at the last token, or
        None when the tokens lie inside what was recorded before.
        """
        return self.grow(self.find(tenant, tokens, stamp=self._clock()), tenant, tokens, chunks)

    def find(self, tenant: str, tokens: Tokens, *, stamp: float | None = None) -> Place:
        """Follow the tokens. stamp: when what is found on the way is used; None: it is only looked at."""
        node = self._roots.get(tenant)
        if node is None:
            return Place(0, None, [])
        length, chunks = 0, list[Chunk]()
        while True:
            node.stamp = node.stamp if stamp is None else stamp
            chunks += node.chunks
            child = node.children.get(int(tokens[length])) if node.end == length < len(tokens) else None
            if child is None:
                return Place(length, node, chunks)
            length += agreement(child.tokens, tokens[length:])
            node = child

    def page_table(self, place: Place) -> list[Chunk]:
        """The chunks that hold the tokens up to a place."""
        pages, chunks, below = -(-place.length // self._chunk_tokens), list(place.chunks), place.node
        while below is not None and len(chunks) < pages:
            # The place lies inside a chunk that this inner node leaves to its children: any of theirs has these rows.
            below = next(iter(below.children.values()))
            chunks += below.chunks
        return chunks[:pages]

    def stop(self, tenant: str, tokens: Tokens, place: Place) -> Stop | None:
        """Why tokens leave the tree where they do; None when they end there themselves."""
        length, node = place.length, place.node
        if length == len(tokens):
            return None
        asked = int(tokens[length])
        if place.leaf is not None and place.leaf.cut == asked:
            return Stop(length, Why.EVICTED, asked)
        gone = self._past.why_gone(tenant, tokens[: length + 1])
        if gone is not None:
            return Stop(length, gone, asked)
        if length == 0 or node is None:
            return Stop(0, Why.NOTHING_RECORDED, asked)
        found = node.token_after(length)
        return Stop(length, Why.RECORD_ENDS if found is None else Why.DIFFERS, asked, found)

    def grow(self, place: Place, tenant: str, tokens: Tokens, chunks: Sequence[Chunk]) -> Node | None:
        """rPush at the place where the tokens leave the tree."""
        assert len(chunks) == -(-len(tokens) // self._chunk_tokens), "a page table that does not fit its tokens"
        if len(tokens) == 0:
            return None
        length, node = place.length, place.node
        if node is None:
            node = self._roots[tenant] = self._new(tenant, None, tokens[:0], 0, [])
        if length == len(tokens):
            return place.leaf
        if length < node.end:
            node = self._split(node, length)
        rest, own = tokens[length:], list(chunks[length // self._chunk_tokens :])
        if node.children or node.parent is None:
            leaf = self._new(tenant, node, rest, length, [])
            node.children[int(rest[0])] = leaf
        else:
            leaf = node
            self._keep_cut(leaf, int(rest[0]))
            leaf.tokens = np.concatenate([node.tokens, rest])
            self._cool(leaf)
        kept = leaf.chunks[: length // self._chunk_tokens - leaf.start // self._chunk_tokens]
        replaced = leaf.chunks[len(kept) :]
        for chunk in own:
            self._take(chunk)
        leaf.chunks = kept + own
        self._drop(replaced)
        self.extents.add(tenant, tokens=len(rest), chunks=len(own) - len(replaced))
        self._leaves.add(leaf)
        return leaf

    def evict(self, unused_since: float = inf) -> bool:
        """Give up the last chunk of the least recently used leaf that nobody runs on; False when there is none.

        unused_since: only what was last used before this time.
        A chunk with another reference is one that a running vTensor maps: giving it up would free nothing.
        """
        leaf = self._leaves.take(unused_since)
        if leaf is None:
            return False
        self._shorten(leaf)
        return True

    @property
    def leaves(self) -> LeafQueue:
        """In the order in which `evict` takes them."""
        return self._leaves

    def clear(self, why: Why = Why.FLUSHED) -> None:
        """Give up everything; what running vTensors hold stays theirs. Of the past only the tokens are remembered."""
        for node in list(self.walk()):
            self._cool(node)
            self._drop(node.chunks)
            node.parent, node.chunks = None, []
        self._past.note_flush(self._roots, self.extents.total.tokens, why)
        self._roots = {}
        self._leaves.clear()
        self.extents = Extents()

    def path(self, leaf: Node) -> list[Chunk]:
        """The page table of a leaf."""
        return [chunk for node in leaf.from_root() for chunk in node.chunks]

    def walk(self) -> Iterator[Node]:
        """Every node, parents first."""
        for root in self._roots.values():
            yield from root.below()

    def _split(self, node: Node, at: int) -> Node:
        """Part a node at a token inside it; returns the upper half, now an inner node."""
        parent, pages = node.parent, at // self._chunk_tokens - node.start // self._chunk_tokens
        assert parent is not None
        upper = self._new(node.tenant, parent, node.tokens[: at - node.start], node.start, node.chunks[:pages])
        upper.stamp = node.stamp
        parent.children[int(upper.tokens[0])] = upper
        node.tokens, node.chunks = node.tokens[at - node.start :], node.chunks[pages:]
        node.parent, node.start = upper, at
        upper.children[int(node.tokens[0])] = node
        return upper

    def _shorten(self, leaf: Node) -> None:
        """Take a leaf's last chunk away, and with it the tokens that lie in it, up the tree where they reach there."""
        self._cool(leaf)
        chunk = leaf.chunks.pop()
        end = (leaf.start // self._chunk_tokens + len(leaf.chunks)) * self._chunk_tokens
        self._drop([chunk])
        self.extents.add(leaf.tenant, chunks=-1)
        cut = -1
        while leaf.start >= end:
            parent, cut = leaf.parent, int(leaf.tokens[0])
            assert parent is not None
            self.extents.add(leaf.tenant, tokens=-len(leaf.tokens), nodes=-1)
            del parent.children[cut]
            leaf.parent = None
            if parent.children or parent.parent is None:
                self._note_cut(parent, cut)
                self._tidy(parent)
                return
            leaf = parent
        self.extents.add(leaf.tenant, tokens=-max(0, leaf.end - end))
        leaf.cut = int(leaf.tokens[end - leaf.start]) if end < leaf.end else cut
        leaf.tokens = leaf.tokens[: end - leaf.start]
        self._leaves.add(leaf)

    def _tidy(self, node: Node) -> None:
        """After one of its children has gone."""
        if node.children:
            self._merge(node)
        else:
            self.extents.add(node.tenant, nodes=-1)
            del self._roots[node.tenant]

    def _keep_cut(self, leaf: Node, grows: int) -> None:
        """What a leaf knows of its past end, when it goes on: the same again, or another way."""
        cut, leaf.cut = leaf.cut, None
        if cut is not None and cut != grows:
            self._note_cut(leaf, cut)

    def _note_cut(self, node: Node, cut: int) -> None:
        runs = [each.tokens for each in node.from_root()]
        self._past.note_cut(node.tenant, np.concatenate([*runs, np.array([cut], dtype=np.int32)]))

    def _merge(self, node: Node) -> None:
        """Join an inner node with its only child: no one else needs the place where they parted."""
        if len(node.children) != 1 or node.parent is None:
            return
        (child,) = node.children.values()
        child.tokens = np.concatenate([node.tokens, child.tokens])
        child.chunks = node.chunks + child.chunks
        child.start, child.parent = node.start, node.parent
        node.parent.children[int(child.tokens[0])] = child
        node.parent = None
        node.children = {}
        self.extents.add(child.tenant, nodes=-1)

    def _new(self, tenant: str, parent: Node | None, tokens: Tokens, start: int, chunks: list[Chunk]) -> Node:
        self.extents.add(tenant, nodes=1)
        return Node(next(self._serials), tenant, parent, tokens, start, chunks, self._clock())

    def _cool(self, node: Node) -> None:
        warm, node.warm = node.warm, None
        if warm is not None:
            self._unwarm(warm)
