"""A server's life: it listens at once, serves when its engine is ready, and leaves in bounded time.

The first SIGTERM or SIGINT drains: new work is refused with 503 while running turns go on, up to a limit; then each of
them is ended with an error event and saved. The second ends at once.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import uvicorn
from starlette.types import ASGIApp

from chatserve.server.running import RunningTurns

KEEP_ALIVE_SECONDS = 60
HURRY_SECONDS = 1.0


class EngineLifecycle(Protocol):
    """What an engine's owner does with it."""

    async def start(self) -> None:
        """Returns when the engine is ready. Raises what it cannot start for."""

    async def close(self, timeout: float) -> None:
        """Gone within so many seconds, in its own way or not."""


@dataclass(frozen=True, slots=True)
class DrainLimits:
    """Seconds. running: for turns to finish; ending: for the rest to be told and saved; engine: for it to close.

    The whole exit takes at most running + 3 * ending + engine + 2; after a second signal 3 from there.
    """

    running: float = 30.0
    ending: float = 5.0
    engine: float = 10.0


class ExitSignals:
    """SIGTERM and SIGINT, counted."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()

    @contextmanager
    def listening(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.note)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def patience(self, seconds: float) -> float:
        """How long something may still take."""
        return min(seconds, HURRY_SECONDS) if self.second.is_set() else seconds

    def note(self) -> None:
        """One more signal has come."""
        if self.first.is_set():
            self.second.set()
        self.first.set()

    def note_twice(self) -> None:
        """There is nothing to wait for."""
        self.note()
        self.note()


class _Server(uvicorn.Server):
    """Leaves signals to ExitSignals: uvicorn would stop to listen on the first, and its streams would be cut."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: ASGIApp,
    listening: socket.socket,
    *,
    engine: EngineLifecycle,
    running: RunningTurns,
    signals: ExitSignals | None = None,
    limits: DrainLimits | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal says to leave; returns when everything is closed but what the caller owns (its store).

    listening: from `bind`; closed here. ready: called once, when the engine answers. Raises what its start raised.
    """
    signals = signals or ExitSignals()
    limits = limits or DrainLimits()
    server = _server(app, limits)
    with signals.listening():
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        starting = asyncio.create_task(engine.start())
        try:
            await _live(serving, starting, signals, ready)
            await _drain(running, signals, limits)
        finally:
            server.should_exit = True
            await _first_of([asyncio.shield(serving), signals.second.wait()], limits.ending + 1)
            await _ended(serving, HURRY_SECONDS)
            running.interrupt()  # none is left after a drain
            await _first_of([running.idle()], signals.patience(limits.ending))
            await _ended(starting, 0)
            await engine.close(signals.patience(limits.engine))
    if not serving.cancelled():
        serving.result()


def _server(app: ASGIApp, limits: DrainLimits) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, round(limits.ending)),
        )
    )


async def _live(
    serving: asyncio.Task[None], starting: asyncio.Task[None], signals: ExitSignals, ready: Callable[[], None]
) -> None:
    """From the first request to the first signal."""
    leaving = asyncio.create_task(signals.first.wait())
    try:
        await asyncio.wait((serving, starting, leaving), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            ready()
            await asyncio.wait((serving, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()


async def _drain(running: RunningTurns, signals: ExitSignals, limits: DrainLimits) -> None:
    """Still listening, so that new work gets its 503, until nothing runs or nobody wants to wait any longer."""
    running.close()
    await _first_of([running.idle(), signals.second.wait()], limits.running)
    running.interrupt()
    await _first_of([running.idle(), signals.second.wait()], limits.ending)


async def _first_of(waits: Sequence[Awaitable[object]], seconds: float) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def _ended(task: asyncio.Task[None], seconds: float) -> None:
    """Wait for a task's own end for so long, then end it."""
    await asyncio.wait((task,), timeout=seconds)
    task.cancel()
    await asyncio.wait((task,))
