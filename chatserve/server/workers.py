"""API processes side by side on one port: each is started with a listening socket of its own, and again when it dies.

The sockets belong to the supervisor, so that connections made to a worker that died wait for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

import msgspec

from chatserve.server.control import (
    LONGEST_LINE,
    Api,
    Cancel,
    EngineAt,
    Found,
    FromWorker,
    Passed,
    Refused,
    Reload,
    ToWorker,
    Up,
    Wanted,
    WorkerStart,
)

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
"""Seconds between a worker's death and the next start; doubled from death to death, until one has been up."""


class WorkerRefused(Exception):
    """No worker can serve; the message says why."""


@dataclass(slots=True)
class Place:
    """One worker's, whichever process it is just now."""

    row: int
    listening: socket.socket
    process: Process | None = None
    up: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.returncode is None


class Workers:
    """command: starts a worker.  sockets: one for each, listening; closed here.  tally, meters: shared memory.

    died: called with a worker's name to the engine when its process has ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        api: Api,
        sockets: Sequence[socket.socket],
        tally: int,
        meters: int,
        *,
        died: Callable[[str], None],
        log_level: int,
    ) -> None:
        self._command = command
        self._api = api
        self._tally = tally
        self._meters = meters
        self._died = died
        self._log_level = log_level
        self._places = [Place(row, listening) for row, listening in enumerate(sockets)]
        self._engine: str | None = None
        self._leaving = False

    def tell(self, endpoint: str | None) -> None:
        """Where the engine listens now; None: it has gone."""
        self._engine = endpoint
        self._tell_all(EngineAt(endpoint=endpoint))

    def reload(self) -> None:
        """Have all of them read the API keys again."""
        self._tell_all(Reload())

    async def up(self) -> None:
        """Return when every worker serves."""
        for place in self._places:
            await place.up.wait()

    async def run(self) -> None:
        """Keep all of them running, until they are told to leave and have. Raises WorkerRefused."""
        keeping = [asyncio.create_task(self._keep(place)) for place in self._places]
        try:
            await asyncio.gather(*keeping)
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.wait(keeping)

    def signal(self, number: signal.Signals) -> None:
        """Tell all of them to leave; nobody is started any more."""
        self._leaving = True
        for place in self._places:
            if place.process is not None and place.running:
                place.process.send_signal(number)

    def _tell_all(self, message: ToWorker, but: Place | None = None) -> None:
        for place in self._places:
            if place is not but and place.process is not None and place.running:
                _write(place.process, message)

    async def _keep(self, place: Place) -> None:
        pause = FIRST_PAUSE
        try:
            for life in count():
                status = await self._run_once(place, f"worker {place.row}.{life}")
                if self._leaving:
                    return
                pause = FIRST_PAUSE if place.up.is_set() else min(2 * pause, LONGEST_PAUSE)
                place.up.clear()
                log.error("worker %d ended with status %s; starting another in %.1f s", place.row, status, pause)
                await asyncio.sleep(pause)
                if self._leaving:
                    return
        finally:
            place.listening.close()  # from now on, connections are spread over the others

    async def _run_once(self, place: Place, name: str) -> int:
        """Run one process to its end; its exit status. Raises WorkerRefused."""
        listening = place.listening.fileno()
        process = place.process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=True,
            pass_fds=(listening, self._tally, self._meters),
            limit=LONGEST_LINE,
        )
        try:
            if self._leaving:  # it was told to all while this one started
                process.terminate()
            _write(process, self._start(place, name))
            if self._engine is not None:
                _write(process, EngineAt(endpoint=self._engine))
            await self._listen(place, process)
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            self._died(name)

    def _start(self, place: Place, name: str) -> WorkerStart:
        return WorkerStart(
            api=self._api,
            client=name,
            row=place.row,
            rows=len(self._places),
            listening=place.listening.fileno(),
            tally=self._tally,
            meters=self._meters,
            log_level=self._log_level,
        )

    async def _listen(self, place: Place, process: Process) -> None:
        """What one process says, to its end."""
        assert process.stdout is not None
        while line := await process.stdout.readline():
            said: FromWorker = msgspec.json.decode(line, type=FromWorker)
            match said:
                case Up():
                    place.up.set()
                case Cancel() | Wanted() | Found():
                    self._tell_all(said, but=place)
                case Passed():
                    self._tell_all(said, but=place)
                case Refused():
                    raise WorkerRefused(said.reason)


def _write(process: Process, message: WorkerStart | ToWorker) -> None:
    assert process.stdin is not None
    with contextlib.suppress(ConnectionError):  # it has just died, which is noticed elsewhere
        process.stdin.write(msgspec.json.encode(message) + b"\n")
