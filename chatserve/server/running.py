"""The turns under way: what a draining server waits for, and what it interrupts at its limit."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Protocol

from chatserve.server.errors import Unavailable


class Interruptible(Protocol):
    def interrupt(self) -> None:
        """End now: save what was seen, and tell the reader."""


class RunningTurns:
    """Admits turns until it is closed, and knows when the last one is saved.

    Saving runs in tasks of its own, which are kept here: a client that leaves cancels its request, never the saving.
    """

    def __init__(self) -> None:
        self._turns: set[Interruptible] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self.closed = False

    def __len__(self) -> int:
        return len(self._turns)

    def check_open(self) -> None:
        """Raises Unavailable once the server is leaving."""
        if self.closed:
            raise Unavailable("The server is shutting down; try another one, or again shortly.", code="draining")

    def add(self, turn: Interruptible) -> None:
        self._turns.add(turn)
        self._idle.clear()

    def remove(self, turn: Interruptible) -> None:
        self._turns.discard(turn)
        self._note_idle()

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run the end of a turn, whatever becomes of the request it belongs to."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        self._idle.clear()
        task.add_done_callback(self._ended)
        return task

    def close(self) -> None:
        """Admit nothing more."""
        self.closed = True

    def interrupt(self) -> None:
        """End every turn that still runs with an error for its reader."""
        for turn in tuple(self._turns):
            turn.interrupt()

    async def idle(self) -> None:
        """Wait until no turn runs and all are saved."""
        await self._idle.wait()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._note_idle()

    def _note_idle(self) -> None:
        if not self._turns and not self._tasks:
            self._idle.set()
