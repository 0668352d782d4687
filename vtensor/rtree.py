"""rTree: recorded vTensors, found by their token ids (vTensor paper, sections 5.2 and 5.3.3).

A radix tree for each tenant. A node is a run of tokens that some recorded vTensors have in common; a leaf's path is the
whole of one recorded vTensor. Every physical chunk on a path is held exactly once, by the node in which the chunk's
last recorded token lies, so a path's page table is its nodes' chunks in order. Token ids are compared, never only
hashed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf

import numpy as np
import numpy.typing as npt

from vtensor.pool import Chunk, VTensor

Tokens = npt.NDArray[np.int32]


class Node:
    """Tokens `start` to `end` of every recorded vTensor below.

    chunks: for pages from start // chunk_tokens on; an inner node leaves the page its end lies inside to its children.
    warm: the idle vTensor of a leaf whose slot is still mapped over exactly the leaf's path.
    stamp: when it was last used; queued: whether it waits in the queue of eviction.
    """

    __slots__ = ("children", "chunks", "parent", "queued", "stamp", "start", "tokens", "warm")

    def __init__(self, parent: Node | None, tokens: Tokens, start: int, chunks: list[Chunk], stamp: float) -> None:
        self.parent = parent
        self.tokens = tokens
        self.start = start
        self.chunks = chunks
        self.children: dict[int, Node] = {}
        self.warm: VTensor | None = None
        self.stamp = stamp
        self.queued = False

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


@dataclass(frozen=True, slots=True)
class Match:
    """The longest recorded prefix of some tokens.

    chunks: the page table of its `length` tokens; the last chunk may be used in part.
    leaf: the leaf that ends exactly there, if one does.
    """

    length: int
    chunks: list[Chunk]
    leaf: Node | None


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
        self._leaves: list[tuple[float, int, Node]] = []
        self._pushes = count()
        self.tokens = 0
        self.nodes = 0

    def rPrefixMatch(self, tenant: str, tokens: Tokens) -> Match:
        """The longest prefix of these tokens recorded for this tenant. What it found counts as used now."""
        node, length, chunks = self._descend(tenant, tokens, stamp=self._clock())
        if node is None:
            return Match(0, [], None)
        pages = -(-length // self._chunk_tokens)
        below = node
        while len(chunks) < pages:
            # The match ends inside a chunk that this inner node leaves to its children: any of theirs has these rows.
            below = next(iter(below.children.values()))
            chunks += below.chunks
        return Match(length, chunks[:pages], node if self._ends_at(node, length) else None)

    def rPush(self, tenant: str, tokens: Tokens, chunks: Sequence[Chunk]) -> Node | None:
        """Record a vTensor: its tokens, and the chunks of its page table that hold them.

        Where the tree has a prefix already it keeps its own chunks. Returns the leaf that ends at the last token, or
        None when the tokens lie inside what was recorded before.
        """
        assert len(chunks) == -(-len(tokens) // self._chunk_tokens), "a page table that does not fit its tokens"
        if len(tokens) == 0:
            return None
        node, length, _ = self._descend(tenant, tokens, stamp=self._clock())
        if node is None:
            node = self._roots[tenant] = self._new(None, tokens[:0], 0, [])
        if length == len(tokens):
            return node if self._ends_at(node, length) else None
        if length < node.end:
            node = self._split(node, length)
        rest, own = tokens[length:], list(chunks[length // self._chunk_tokens :])
        if node.children or node.parent is None:
            leaf = self._new(node, rest, length, [])
            node.children[int(rest[0])] = leaf
        else:
            leaf = node
            leaf.tokens = np.concatenate([node.tokens, rest])
            self._cool(leaf)
        kept = leaf.chunks[: length // self._chunk_tokens - leaf.start // self._chunk_tokens]
        replaced = leaf.chunks[len(kept) :]
        for chunk in own:
            self._take(chunk)
        leaf.chunks = kept + own
        self._drop(replaced)
        self.tokens += len(rest)
        self._enqueue(leaf)
        return leaf

    def evict(self, unused_since: float = inf) -> bool:
        """Give up the last chunk of the least recently used leaf that nobody runs on; False when there is none.

        unused_since: only what was last used before this time.
        A chunk with another reference is one that a running vTensor maps: giving it up would free nothing.
        """
        in_use: list[tuple[float, int, Node]] = []
        evicted = False
        while self._leaves and not evicted and self._leaves[0][0] < unused_since:
            entry = heapq.heappop(self._leaves)
            stamp, _, node = entry
            if node.children or node.parent is None:
                node.queued = False
            elif stamp != node.stamp:
                heapq.heappush(self._leaves, (node.stamp, next(self._pushes), node))
            elif node.chunks[-1].references > 1:
                in_use.append(entry)
            else:
                node.queued = False
                self._shorten(node)
                evicted = True
        for entry in in_use:
            heapq.heappush(self._leaves, entry)
        return evicted

    def clear(self) -> None:
        """Give up everything; what running vTensors hold stays theirs."""
        for node in list(self.walk()):
            self._cool(node)
            self._drop(node.chunks)
            node.parent, node.chunks = None, []
        self._roots.clear()
        self._leaves.clear()
        self.tokens = self.nodes = 0

    def path(self, leaf: Node) -> list[Chunk]:
        """The page table of a leaf."""
        nodes: list[Node] = []
        node: Node | None = leaf
        while node is not None:
            nodes.append(node)
            node = node.parent
        return [chunk for node in reversed(nodes) for chunk in node.chunks]

    def walk(self) -> Iterator[Node]:
        """Every node, parents first."""
        stack = list(self._roots.values())
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def _descend(self, tenant: str, tokens: Tokens, *, stamp: float) -> tuple[Node | None, int, list[Chunk]]:
        """The last node on the tokens' path, how many tokens agree, and the chunks of the nodes on the way."""
        node = self._roots.get(tenant)
        if node is None:
            return None, 0, []
        length, chunks = 0, []
        while True:
            node.stamp = stamp
            chunks += node.chunks
            child = node.children.get(int(tokens[length])) if length < len(tokens) else None
            if child is None:
                return node, length, chunks
            agree = _agreement(child.tokens, tokens[length:])
            node, length = child, length + agree
            if length < child.end:
                node.stamp = stamp
                return node, length, chunks + node.chunks

    def _split(self, node: Node, at: int) -> Node:
        """Part a node at a token inside it; returns the upper half, now an inner node."""
        parent, pages = node.parent, at // self._chunk_tokens - node.start // self._chunk_tokens
        assert parent is not None
        upper = self._new(parent, node.tokens[: at - node.start], node.start, node.chunks[:pages])
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
        while leaf.start >= end:
            parent = leaf.parent
            assert parent is not None
            self.tokens -= len(leaf.tokens)
            self.nodes -= 1
            del parent.children[int(leaf.tokens[0])]
            leaf.parent = None
            if parent.children:
                self._merge(parent)
                return
            if parent.parent is None:
                self.nodes -= 1
                self._roots = {key: root for key, root in self._roots.items() if root is not parent}
                return
            leaf = parent
        self.tokens -= max(0, leaf.end - end)
        leaf.tokens = leaf.tokens[: end - leaf.start]
        self._enqueue(leaf)

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
        self.nodes -= 1

    def _new(self, parent: Node | None, tokens: Tokens, start: int, chunks: list[Chunk]) -> Node:
        self.nodes += 1
        return Node(parent, tokens, start, chunks, self._clock())

    def _cool(self, node: Node) -> None:
        warm, node.warm = node.warm, None
        if warm is not None:
            self._unwarm(warm)

    def _ends_at(self, node: Node, length: int) -> bool:
        return length == node.end and not node.children and node.parent is not None

    def _enqueue(self, leaf: Node) -> None:
        if not leaf.queued:
            leaf.queued = True
            heapq.heappush(self._leaves, (leaf.stamp, next(self._pushes), leaf))


def _agreement(left: Tokens, right: Tokens) -> int:
    """How many leading tokens two runs have in common."""
    length = min(len(left), len(right))
    differing = left[:length] != right[:length]
    first = int(differing.argmax()) if length else 0
    return first if length and differing[first] else length
