"""A run of tokens in the rTree, and how tokens are compared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from vtensor.pool import Chunk, VTensor

Tokens = npt.NDArray[np.int32]


class Node:
    """Tokens `start` to `end` of every recorded vTensor below.

    serial: its number, in the order in which nodes came to be; never another's.
    tenant: whose tree it is in.
    chunks: for pages from start // chunk_tokens on; an inner node leaves the page its end lies inside to its children.
    warm: the idle vTensor of a leaf whose slot is still mapped over exactly the leaf's path.
    cut: the token that came after a leaf's end before it was evicted.
    label: what whoever recorded the leaf last calls its vTensor; opaque.
    stamp: when it was last used; queued: whether it waits in the queue of eviction.
    """

    __slots__ = (
        "children",
        "chunks",
        "cut",
        "label",
        "parent",
        "queued",
        "serial",
        "stamp",
        "start",
        "tenant",
        "tokens",
        "warm",
    )

    def __init__(
        self,
        serial: int,
        tenant: str,
        parent: Node | None,
        tokens: Tokens,
        start: int,
        chunks: list[Chunk],
        stamp: float,
    ) -> None:
        self.serial = serial
        self.tenant = tenant
        self.parent = parent
        self.tokens = tokens
        self.start = start
        self.chunks = chunks
        self.children: dict[int, Node] = {}
        self.warm: VTensor | None = None
        self.cut: int | None = None
        self.label = ""
        self.stamp = stamp
        self.queued = False

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)

    def token_after(self, length: int) -> int | None:
        """What is recorded after so many tokens, of which the last is this node's; None where its record ends."""
        if length < self.end:
            return int(self.tokens[length - self.start])
        latest = max(self.children.values(), key=lambda child: child.stamp, default=None)
        return None if latest is None else int(latest.tokens[0])

    def from_root(self) -> list[Node]:
        """Its path, the root first."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def below(self) -> Iterator[Node]:
        """The node and all under it, parents first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())


def agreement(left: Tokens, right: Tokens) -> int:
    """How many leading tokens two runs have in common."""
    length = min(len(left), len(right))
    differing = left[:length] != right[:length]
    first = int(differing.argmax()) if length else 0
    return first if length and differing[first] else length


def leads_along(root: Node, tokens: Tokens) -> bool:
    """Whether all of these tokens lie on one path below a root."""
    node, length = root, 0
    while length < len(tokens):
        child = node.children.get(int(tokens[length]))
        if child is None:
            return False
        agree = agreement(child.tokens, tokens[length:])
        length += agree
        if agree < len(child.tokens):
            return length == len(tokens)
        node = child
    return True
