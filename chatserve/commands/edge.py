"""The edge of one API process, from its settings."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from chatserve.server.control import EdgeSettings
from chatserve.server.edge import Edge
from chatserve.server.gatekeeper import METRICS, PUBLIC
from chatserve.server.keys import KeyRing, lone_key, read_keys
from chatserve.server.meters import Meters
from chatserve.server.visit import Caller, Rates


def open_edge(settings: EdgeSettings, meters: int) -> Edge:
    """meters: shared memory in which callers are metered. Raises KeysUnusable."""
    rates = Rates(settings.requests, settings.tokens)
    return Edge(
        keys=_keys(settings, Caller("", rates=rates, shares_prefixes=settings.share_prefixes)),
        anybody=Caller("", admin=True, rates=rates),
        meters=Meters(meters),
        origins=settings.origins,
        public=PUBLIC | {METRICS} if settings.public_metrics else PUBLIC,
    )


def _keys(settings: EdgeSettings, template: Caller) -> KeyRing | None:
    if settings.keys_file is not None:
        return KeyRing(partial(read_keys, Path(settings.keys_file), template))
    if settings.key is not None:
        return KeyRing(partial(lone_key, settings.key, template))
    return None
