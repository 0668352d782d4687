"""Pictures of a memory, as large as a test wants them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

CHUNK = 256
TOKEN = 36_864
"""Bytes a token takes."""


def picture(count: int, ends: Sequence[tuple[str, str]] = (), seed: int = 3) -> dict[str, Any]:
    """Of so many pieces, which grow from one beginning. ends: conversations (id, title) in turn for the leaves."""
    chance = random.Random(seed)
    nodes = [piece(0, None, 0, 600)]
    while len(nodes) < count:
        before = chance.choice(nodes[-40:] if chance.random() < 0.5 else nodes[:8])
        if before["end"] < 9000:
            nodes.append(piece(len(nodes), before["id"], before["end"], before["end"] + chance.randint(60, 1600)))
    parents = {node["parent"] for node in nodes}
    leaves = [node for node in nodes if node["id"] not in parents]
    for node in nodes:
        node["shared"] = sum(other["parent"] == node["id"] for other in nodes) > 1
    for place, leaf in enumerate(leaves):
        leaf["conversation"], leaf["title"] = ends[place % len(ends)] if ends else (None, None)
        leaf |= {"next": place, "warm": place % 3 == 0, "idle_s": 600.0 - place}
    leaves[-1] |= {"in_use": True, "next": None, "idle_s": 0.0}
    return {"device": device(), "nodes": nodes, "more": 0, "others": {"nodes": 3, "bytes": 20 << 20}}


def piece(number: int, parent: int | None, start: int, end: int) -> dict[str, Any]:
    size = end - start
    return {
        "id": number,
        "parent": parent,
        "start": start,
        "end": end,
        "chunks": -(-size // CHUNK),
        "bytes": size * TOKEN,
        "shared": False,
        "tier": "device",
        "in_use": False,
        "warm": False,
        "idle_s": 60.0,
        "next": None,
        "conversation": None,
        "title": None,
    }


def device() -> dict[str, Any]:
    mega = 1 << 20
    return {
        "limit_bytes": 1024 * mega,
        "physical_bytes": 620 * mega,
        "used_bytes": 340 * mega,
        "shared_bytes": 180 * mega,
        "free_bytes": 100 * mega,
        "given_back_bytes": 412 * mega,
        "mapped_bytes": 900 * mega,
        "chunk_bytes": CHUNK * TOKEN,
        "chunk_tokens": CHUNK,
        "running": 1,
        "waiting": 2,
        "device_total_bytes": None,
        "device_free_bytes": 8192 * mega,
    }
