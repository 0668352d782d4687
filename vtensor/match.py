"""What the rTree finds for some tokens."""

from __future__ import annotations

from dataclasses import dataclass

from vtensor.node import Node
from vtensor.pool import Chunk
from vtensor.reuse import Stop


@dataclass(frozen=True, slots=True)
class Place:
    """Where tokens leave the tree: how many agree, the last node on their way, and the chunks of all nodes on it."""

    length: int
    node: Node | None
    chunks: list[Chunk]

    @property
    def leaf(self) -> Node | None:
        """The leaf that ends exactly there, if one does."""
        node = self.node
        if node is None or node.children or node.parent is None or self.length < node.end:
            return None
        return node


@dataclass(frozen=True, slots=True)
class Match:
    """The longest recorded prefix of some tokens.

    chunks: the page table of its `length` tokens; the last chunk may be used in part.
    leaf: the leaf that ends exactly there, if one does.
    stop: why it is not longer; None when it is all that was asked for.
    """

    length: int
    chunks: list[Chunk]
    leaf: Node | None
    stop: Stop | None
