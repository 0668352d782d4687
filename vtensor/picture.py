"""A picture of the rTree: what one tenant has recorded, where it lies, and in which order it would be given up.

Taken between two acts, from the books alone: nothing counts as used by it, and the order of eviction stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from vtensor.extent import Extent
from vtensor.leaves import evictable
from vtensor.node import Node
from vtensor.rtree import RTree


class PictureNode(NamedTuple):
    """Tokens `start` to `end` of every recorded vTensor below.

    id: the same in every picture while the node lives; an upper half that is split off has a new one.
    parent: None at the beginning of a vTensor.
    chunks: held here. An inner node leaves the chunk that its end lies inside to its children.
    shared: several recorded vTensors go through it, or several running ones map it.  in_use: a running one maps it.
    warm: the next turn of the vTensor that ends here takes its slot over without a call.
    idle: seconds since it was last used.
    next: how many leaves, of whatever tenant, are given up before this one; None where it would not be given up.
    label: of a leaf, as it was recorded last.
    """

    id: int
    parent: int | None
    start: int
    end: int
    chunks: int
    shared: bool
    in_use: bool
    warm: bool
    idle: float
    next: int | None
    label: str


@dataclass(frozen=True, slots=True)
class Rest:
    """Nodes that are not in a picture, and the chunks that they hold."""

    nodes: int
    chunks: int

    def __sub__(self, other: Rest) -> Rest:
        return Rest(self.nodes - other.nodes, self.chunks - other.chunks)


@dataclass(frozen=True, slots=True)
class Picture:
    """nodes: parents first, those used last where there are too many, each with all of its ancestors.

    more: the same tenant's others.  others: what is recorded of all other tenants.
    """

    nodes: tuple[PictureNode, ...]
    more: Rest
    others: Rest


def take_picture(tree: RTree, tenant: str, *, most: int, focus: Collection[str], now: float) -> Picture:
    """At most so many nodes. focus: labels whose leaves come before those used later.  now: by the tree's clock.

    Costs a look at every leaf, and no more than that for what is not shown.
    """
    leaves = tree.leaves.in_order()
    ranks = {leaf: rank for rank, leaf in enumerate(filter(evictable, leaves))}
    latest = [leaf for leaf in reversed(leaves) if leaf.tenant == tenant]
    if focus:
        latest.sort(key=lambda leaf: leaf.label not in focus)
    shown = _parents_first(_with_ancestors(latest, most))
    nodes = tuple(_draw(node, now, ranks.get(node)) for node in shown)
    every, own = _rest(tree.extents.total, len(tree.extents.tenants)), _rest(tree.extents.of(tenant), 1)
    return Picture(nodes, more=own - Rest(len(nodes), sum(node.chunks for node in nodes)), others=every - own)


def _with_ancestors(leaves: Sequence[Node], most: int) -> set[Node]:
    """Of a path that there is not room enough for, its beginning."""
    chosen = set[Node]()
    for leaf in leaves:
        if len(chosen) == most:
            break
        path, node = [], leaf
        while node not in chosen and node.parent is not None:
            path.append(node)
            node = node.parent
        chosen.update(path[-(most - len(chosen)) :])
    return chosen


def _parents_first(nodes: Collection[Node]) -> list[Node]:
    """Among those that begin at one token, the oldest first: one that is split keeps its place."""
    ordered = sorted(nodes, key=attrgetter("start"))
    oldest = {node: node.serial for node in ordered}
    for node in reversed(ordered):
        if node.parent in oldest:
            oldest[node.parent] = min(oldest[node.parent], oldest[node])
    return sorted(ordered, key=lambda node: (node.start, oldest[node]))


def _draw(node: Node, now: float, rank: int | None) -> PictureNode:
    parent = node.parent
    assert parent is not None, "a root has no tokens"
    holders = max((chunk.references for chunk in node.chunks), default=1)
    return PictureNode(
        id=node.serial,
        parent=None if parent.parent is None else parent.serial,
        start=node.start,
        end=node.end,
        chunks=len(node.chunks),
        shared=bool(node.children) or holders > 2,  # the rTree is one of them
        in_use=holders > 1,
        warm=node.warm is not None,
        idle=now - node.stamp,
        next=rank,
        label=node.label,
    )


def _rest(extent: Extent, roots: int) -> Rest:
    """Roots have no tokens and are never shown."""
    return Rest(max(0, extent.nodes - roots), extent.chunks)
