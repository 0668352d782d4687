"""The memory as the page reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from chatserve.engine.messages import MemoryPicture
from chatserve.engine.picture import PictureNode
from chatserve.server.errors import ErrorDetail
from chatserve.server.response_asks import CONVERSATION


class DeviceView(msgspec.Struct, frozen=True, kw_only=True):
    """physical = free + used + shared: all memory for KV that exists. limit: that may exist.

    used: with one owner, running or recorded.  mapped: a chunk counts at every address.
    given_back: to the device since the engine's start.  device_…: as the device says, whoever uses it.
    """

    limit_bytes: int
    physical_bytes: int
    used_bytes: int
    shared_bytes: int
    free_bytes: int
    given_back_bytes: int
    mapped_bytes: int
    chunk_bytes: int
    chunk_tokens: int
    running: int
    waiting: int
    device_total_bytes: int | None
    device_free_bytes: int | None


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A run of tokens that some conversations have in common, or one of them alone; vtensor/picture.py says more.

    conversation, title: whose end this is, where that is one of the caller's own.
    """

    id: int
    parent: int | None
    start: int
    end: int
    chunks: int
    bytes: int
    shared: bool
    tier: Literal["device"] = "device"
    in_use: bool
    warm: bool
    idle_s: float
    next: int | None
    conversation: str | None
    title: str | None


class OthersView(msgspec.Struct, frozen=True):
    """All that other tenants have recorded."""

    nodes: int
    bytes: int


class MemoryView(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="memory"):
    """more: how many nodes of the caller's are not among these."""

    device: DeviceView
    nodes: tuple[NodeView, ...]
    more: int
    others: OthersView


class MemoryAway(msgspec.Struct, frozen=True, tag_field="type", tag="error"):
    """There is no engine to look at just now."""

    error: ErrorDetail


def memory_view(picture: MemoryPicture, titles: Mapping[str, str | None]) -> MemoryView:
    """titles: of the caller's conversations, by their labels; those of a label that is not among them are not told."""
    return MemoryView(
        device=_device(picture),
        nodes=tuple(_node(node, picture.chunk_bytes, titles) for node in picture.nodes),
        more=picture.more.nodes,
        others=OthersView(picture.others.nodes, picture.others.bytes),
    )


def at_rest(view: MemoryView) -> MemoryView:
    """Without what changes while nothing happens."""
    nodes = tuple(msgspec.structs.replace(node, idle_s=0.0) for node in view.nodes)
    return msgspec.structs.replace(view, nodes=nodes)


def _device(picture: MemoryPicture) -> DeviceView:
    stats = picture.stats
    return DeviceView(
        limit_bytes=stats.limit_bytes,
        physical_bytes=stats.physical_bytes,
        used_bytes=stats.private_bytes,
        shared_bytes=stats.shared_bytes,
        free_bytes=stats.free_bytes,
        given_back_bytes=stats.given_back_bytes,
        mapped_bytes=stats.mapped_bytes,
        chunk_bytes=picture.chunk_bytes,
        chunk_tokens=stats.chunk_tokens,
        running=stats.running,
        waiting=stats.waiting,
        device_total_bytes=picture.device_total_bytes,
        device_free_bytes=picture.device_free_bytes,
    )


def _node(node: PictureNode, chunk_bytes: int, titles: Mapping[str, str | None]) -> NodeView:
    return NodeView(
        id=node.id,
        parent=node.parent,
        start=node.start,
        end=node.end,
        chunks=node.chunks,
        bytes=node.chunks * chunk_bytes,
        shared=node.shared,
        in_use=node.in_use,
        warm=node.warm,
        idle_s=round(node.idle, 1),
        next=node.next,
        conversation=CONVERSATION + node.label if node.label in titles else None,
        title=titles.get(node.label),
    )
