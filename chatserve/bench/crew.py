"""All the processes of one load: started together, heard out, and stopped early when somebody says so."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from threading import Event
from typing import Final

from chatserve.bench.connection import clock
from chatserve.bench.load import Closed, Part
from chatserve.bench.outcome import Failure, Outcome
from chatserve.bench.playing import Run
from chatserve.bench.process import Cost, Ready, Told, perform

START: Final = 0.1
"""Seconds from when all are ready to when all begin."""
HOPELESS: Final = 30
"""When so many turns have ended and every one has failed, there is nothing to measure."""
LOOK: Final = 0.25
STOP: Final = 10.0
"""Seconds that processes get to stop."""


class ProcessDied(Exception):
    """A process of the client ended before its work did."""


@dataclass(slots=True)
class Performance:
    """What a load brought so far.

    begin: the moment it began, on the clock of the outcomes.  interrupted: somebody stopped it.
    hopeless: why nothing could be measured.
    """

    begin: float = 0.0
    outcomes: list[Outcome] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    interrupted: bool = False
    hopeless: Failure | None = None


def perform_all(run: Run, processes: int, show: Callable[[Performance], None]) -> Performance:
    """The whole load; `show` is called again and again meanwhile. Ctrl-C ends it with what there is.

    Raises ProcessDied.
    """
    performance = Performance()
    with _noted_interrupt() as interrupt, _Crew(run, processes) as crew:
        performance.begin = crew.begin()
        for outcomes, cost in crew.said():
            performance.outcomes += outcomes
            performance.costs += [] if cost is None else [cost]
            show(performance)
            if performance.interrupted or performance.hopeless:
                continue
            performance.interrupted = interrupt.is_set()
            performance.hopeless = _hopeless(performance.outcomes)
            if performance.interrupted or performance.hopeless:
                crew.stop()
    return performance


def _hopeless(outcomes: list[Outcome]) -> Failure | None:
    if len(outcomes) < HOPELESS or any(turn.failure is None for turn in outcomes):
        return None
    return outcomes[-1].failure


class _Crew:
    def __init__(self, run: Run, processes: int) -> None:
        count = min(processes, run.load.users) if isinstance(run.load, Closed) else processes
        context = multiprocessing.get_context("spawn")
        self._processes: dict[Pipe, SpawnProcess] = {}
        with _without_interrupt():  # theirs, too: a process keeps ignoring what it was born ignoring
            for index in range(count):
                ours, theirs = context.Pipe()
                part = Part(index, count, run.limits)
                process = context.Process(target=perform, args=(run, part, theirs), daemon=True)
                process.start()
                theirs.close()  # so that the end of the process is the end of the pipe
                self._processes[ours] = process

    def __enter__(self) -> _Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        for pipe, process in self._processes.items():
            process.join(STOP)
            if process.is_alive():
                process.kill()
                process.join()
            pipe.close()

    def begin(self) -> float:
        """Wait until all are ready, then tell them when; that moment. Raises ProcessDied."""
        for pipe in self._processes:
            said = _next(pipe)
            assert isinstance(said, Ready)
        moment = clock() + START
        for pipe in self._processes:
            pipe.send(moment)
        return moment

    def said(self) -> Iterator[tuple[list[Outcome], Cost | None]]:
        """What they say until all are done, and nothing every now and then. Raises ProcessDied."""
        talking = list(self._processes)
        while talking:
            for pipe in wait(talking, LOOK):
                assert isinstance(pipe, Pipe)
                match _next(pipe):
                    case Told(outcomes):
                        yield outcomes, None
                    case Cost() as cost:
                        talking.remove(pipe)
                        yield [], cost
            yield [], None

    def stop(self) -> None:
        for pipe in self._processes:
            with contextlib.suppress(OSError):
                pipe.send(None)


def _next(pipe: Pipe) -> object:
    try:
        return pipe.recv()
    except EOFError:
        raise ProcessDied("a process of the client died; what it measured is lost") from None


@contextlib.contextmanager
def _noted_interrupt() -> Iterator[Event]:
    """Ctrl-C is noted, once: raised in the middle of a message it would lose the rest. The second one is as ever."""
    came = Event()

    def note(_number: int, _frame: object) -> None:
        came.set()
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _without_interrupt() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
