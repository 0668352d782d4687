"""The life of a server of several API processes, seen from the process that owns them and the engine.

A signal is handed on to all workers, each of which drains as a server of one process does; then the engine ends.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from chatserve.server.serve import DrainLimits, EngineLifecycle, ExitSignals
from chatserve.server.workers import Workers

LATE_SECONDS = 3.0
"""What a worker may take beyond its limits before it is killed."""


async def supervise(
    engine: EngineLifecycle,
    workers: Workers,
    *,
    limits: DrainLimits,
    ready: Callable[[], None],
    signals: ExitSignals | None = None,
) -> None:
    """Run engine and workers until a signal says to leave; returns when all have ended.

    ready: called once, when every worker serves. Raises WorkerRefused, and what the engine's start raises.
    """
    signals = signals or ExitSignals()
    with signals.listening():
        running = asyncio.create_task(workers.run())
        starting = asyncio.create_task(_start(engine, workers, ready))
        leaving = asyncio.create_task(signals.first.wait())
        try:
            await asyncio.wait((running, starting, leaving), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                await _drain(running, workers, signals, limits)
        finally:
            leaving.cancel()
            for task in (running, starting):
                task.cancel()
            await asyncio.wait((running, starting))
            await engine.close(signals.patience(limits.engine))
    if not running.cancelled():
        running.result()


async def _start(engine: EngineLifecycle, workers: Workers, ready: Callable[[], None]) -> None:
    await engine.start()
    await workers.up()
    ready()


async def _drain(running: asyncio.Task[None], workers: Workers, signals: ExitSignals, limits: DrainLimits) -> None:
    """Wait for all workers to end by themselves, as long as one may take, or after a second signal for a moment."""
    workers.signal(signal.SIGTERM)
    hurry = asyncio.create_task(signals.second.wait())
    seconds = limits.running + 3 * limits.ending + LATE_SECONDS
    await asyncio.wait((running, hurry), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    if hurry.done():
        workers.signal(signal.SIGTERM)
        await asyncio.wait((running,), timeout=LATE_SECONDS)
    hurry.cancel()
