"""A process that plays a part of a load, and what it says to the one that started it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from typing import Final

from chatserve.bench.connection import clock
from chatserve.bench.load import Part
from chatserve.bench.outcome import Outcome
from chatserve.bench.playing import Run, play
from chatserve.bench.statistics import percentile

EVERY: Final = 0.2
"""Seconds between two tellings."""
LOOK: Final = 0.05
"""Seconds between two looks at how late the event loop is."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Waits for the moment to begin at."""


@dataclass(frozen=True, slots=True)
class Told:
    """What became of turns since the last telling."""

    outcomes: list[Outcome]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of the measuring itself, in one process: the last it says.

    cpu: seconds of CPU time.  wall: seconds it took them in.  lag: p99 of how many seconds late its event loop ran.
    """

    cpu: float
    wall: float
    lag: float


Said = Ready | Told | Cost


def perform(run: Run, part: Part, pipe: Pipe) -> None:
    """The whole life of the process: it begins when it is told a moment, and ends early when told anything else."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that started it
    gc.freeze()
    gc.disable()  # a pause here would look like one of the server
    with contextlib.suppress(BrokenPipeError, EOFError):  # whoever started it has gone: there is nobody to tell
        pipe.send(Ready())
        begin = pipe.recv()
        if isinstance(begin, float):
            pipe.send(_cost(run, part, begin, pipe))


def _cost(run: Run, part: Part, begin: float, pipe: Pipe) -> Cost:
    cpu, wall = time.process_time(), clock()
    lags = asyncio.run(_perform(run, part, begin, pipe))
    return Cost(time.process_time() - cpu, clock() - wall, percentile(lags, 99) or 0.0)


async def _perform(run: Run, part: Part, begin: float, pipe: Pipe) -> list[float]:
    outcomes: list[Outcome] = []
    lags: list[float] = []
    playing = asyncio.create_task(play(run, part, begin, outcomes.append))
    loop = asyncio.get_running_loop()

    def stop() -> None:
        loop.remove_reader(pipe.fileno())
        playing.cancel()

    loop.add_reader(pipe.fileno(), stop)
    helping = [asyncio.create_task(_keep_telling(outcomes, pipe)), asyncio.create_task(_watch(lags))]
    try:
        await asyncio.wait([playing])
    finally:
        loop.remove_reader(pipe.fileno())
        for task in helping:
            task.cancel()
        _tell(outcomes, pipe)
    if not playing.cancelled():
        playing.result()
    return lags


async def _keep_telling(outcomes: list[Outcome], pipe: Pipe) -> None:
    while True:
        await asyncio.sleep(EVERY)
        _tell(outcomes, pipe)


def _tell(outcomes: list[Outcome], pipe: Pipe) -> None:
    if outcomes:
        pipe.send(Told(list(outcomes)))
        outcomes.clear()


async def _watch(lags: list[float]) -> None:
    while True:
        expected = clock() + LOOK
        await asyncio.sleep(LOOK)
        lags.append(clock() - expected)
