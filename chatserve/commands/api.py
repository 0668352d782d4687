"""One API process, from its parts."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Callable
from dataclasses import replace

from chatserve.engine.port import EnginePort
from chatserve.page.page import Page
from chatserve.page.policy import Policy
from chatserve.page.relay import Relay
from chatserve.page.rooms import Rooms
from chatserve.server.app import create_app
from chatserve.server.control import Api
from chatserve.server.edge import Edge
from chatserve.server.keys import KeysUnusable
from chatserve.server.live import LiveResponses
from chatserve.server.running import RunningTurns
from chatserve.server.serve import DrainLimits, EngineLifecycle, ExitSignals, serve
from chatserve.server.tally import Tally
from chatserve.text.errors import TokenizerError
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from sessions.manager import SessionManager
from sessions.places import open_store
from sessions.store import StoreError, StoreUnavailable

log = logging.getLogger(__name__)

EXPIRY_SECONDS = 60.0
"""Between two looks for stateless conversations that nobody continues any more."""
CANNOT_SERVE = (TokenizerError, StoreError, KeysUnusable)
"""What `serve_api` and `open_edge` raise for reasons that a new try would meet again."""


async def serve_api(
    api: Api,
    listening: socket.socket,
    engine: EnginePort,
    lifecycle: EngineLifecycle,
    edge: Edge,
    *,
    ready: Callable[[], None],
    signals: ExitSignals | None = None,
    tally: Tally | None = None,
    live: LiveResponses | None = None,
    relay: Relay | None = None,
) -> None:
    """Serve from the first connection to the last; returns when told to leave. Raises CANNOT_SERVE, and what the
    engine's start raises.

    lifecycle: what is started first and closed last.  live, relay: known to the other processes; None: there are none.
    """
    tokenizer = Tokenizer.load(api.source)
    store = await open_store(api.sessions)
    manager, running = SessionManager(store), RunningTurns()
    live = live or LiveResponses()
    page = Page(
        engine,
        manager,
        running,
        live,
        edge.meters,
        relay or Relay(Rooms()),
        model=api.name,
        limits=api.limits,
        needs_key=api.edge.keyed,
    )
    app = create_app(
        engine,
        tokenizer,
        ChatPrompt(tokenizer),
        manager,
        running,
        model_name=api.name,
        limits=api.limits,
        tally=tally,
        live=live,
        extra=page.routes,
    )
    outside = replace(edge, public=edge.public | page.public)
    gc.freeze()  # what was loaded stays: no collection need look at it again, in the middle of a stream
    expiry = asyncio.create_task(forget_the_old(manager, api.history_ttl))
    try:
        await serve(
            outside.around(Policy(app)),
            listening,
            engine=lifecycle,
            running=running,
            signals=signals,
            limits=DrainLimits(running=api.drain),
            ready=ready,
        )
    finally:
        expiry.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await expiry
        await store.close()


async def forget_the_old(manager: SessionManager, history_ttl: float) -> None:
    """Drop stateless conversations that were not continued in time; sessions stay."""
    while True:
        try:
            await manager.expire(history_ttl)
        except StoreUnavailable as error:  # it may be back the next time
            log.warning("old conversations are still there: %s", error)
        await asyncio.sleep(EXPIRY_SECONDS)
