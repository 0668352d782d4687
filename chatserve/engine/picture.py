"""The rTree as the engine tells it: nodes, and sums of those that are not shown."""

from __future__ import annotations

import msgspec


class PictureNode(msgspec.Struct, frozen=True, array_like=True):
    """A run of tokens of the rTree, and what holds it; vtensor/picture.py says what each field means."""

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


class PictureRest(msgspec.Struct, frozen=True, array_like=True):
    """Nodes that are not shown."""

    nodes: int
    bytes: int
