"""The mapper: the thread that does the memory's acts and makes its driver calls, ahead of the computation.

Others hand it acts and go on. What is urgent, a running vTensor that will soon need rows, is done before what waits in
the queue; for the rest the queue's order is the order of the calls, so an act that follows a release sees it done. One
act is done at a time: by the mapper's thread, or by a caller who has nothing better to do while that one is idle.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from vtensor.driver.base import OutOfMemory
from vtensor.manager import Manager
from vtensor.operations import OutOfChunks
from vtensor.pool import VTensor

T = TypeVar("T")


class Mapper:
    """Runs acts on a manager.

    idle_after: seconds without an act after which free memory above the reserve goes back to the device.
    keep_unused: seconds that a recorded prefix is kept without being used.
    """

    def __init__(self, manager: Manager, *, idle_after: float = 0.25, keep_unused: float | None = None) -> None:
        self._manager = manager
        self._idle_after = idle_after
        self._keep_unused = keep_unused
        self._expiry = 0.0
        self._idle_from = 0.0
        self._acts: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._wanted: dict[VTensor, int] = {}
        self._starved: set[VTensor] = set()
        self._wake = threading.Condition()
        self._acting = False
        self._closing = False
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="mapper")
        self._running = self._executor.submit(self._run)
        self._running.add_done_callback(self._ended)

    def submit(self, act: Callable[[Manager], T]) -> Future[T]:
        """Do an act after those submitted before; its result or its error comes with the future."""

        def work() -> T:
            self._note_work()
            return act(self._manager)

        return self._queue(work)

    def at_once(self, act: Callable[[Manager], T]) -> Future[T]:
        """Like `submit`, but done already where nothing else is to be done: two hand-overs between threads less."""
        with self._wake:
            self.check()
            if self._acting or self._wanted or self._acts:
                return self.submit(act)
            self._acting = True
        future: Future[T] = Future()
        try:
            self._manager.bind_thread()
            self._note_work()
            self._perform(partial(act, self._manager), future)
        finally:
            self._acted()
        return future

    def look(self, act: Callable[[Manager], T]) -> Future[T]:
        """Like `submit`, for an act that changes nothing: memory that is only watched is as idle as before."""
        return self._queue(lambda: act(self._manager))

    def extend_ahead(self, vtensor: VTensor, rows: int) -> None:
        """See to it that `rows` rows will be ready, before anything that waits. Costs nothing when they are."""
        if rows <= vtensor.rows:
            return
        with self._wake:
            self._wanted[vtensor] = max(rows, self._wanted.get(vtensor, 0))
            self._starved.discard(vtensor)
            self._wake.notify_all()

    def forget(self, vtensor: VTensor) -> None:
        """Its rows are no longer wanted: it is about to be released."""
        with self._wake:
            self._wanted.pop(vtensor, None)
            self._starved.discard(vtensor)

    def ready(self, vtensor: VTensor, rows: int) -> bool:
        """Wait until exactly these rows are ready (True) or memory is too short for them (False)."""
        with self._wake:
            if vtensor.rows < rows:
                self._wanted[vtensor] = rows  # not what was wished for beyond them
                self._starved.discard(vtensor)
                self._wake.notify_all()
            while vtensor.rows < rows and vtensor not in self._starved:
                self.check()
                self._wake.wait()
        return vtensor.rows >= rows

    def check(self) -> None:
        """Raises what ended the thread, if anything did."""
        assert not self._closing, "the mapper is closed"
        if self._running.done():
            self._running.result()

    def close(self) -> None:
        """Finish what was submitted, give all memory back, end the thread."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._running.result()
        self._executor.shutdown()

    def _queue(self, act: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        with self._wake:
            self.check()
            self._acts.append((act, future))
            self._wake.notify_all()
        return future

    def _run(self) -> None:
        self._manager.bind_thread()
        while self._next():
            pass
        self._manager.close()

    def _ended(self, running: Future[None]) -> None:
        error = running.exception()
        with self._wake:
            for _, future in self._acts:
                future.set_exception(error or RuntimeError("the mapper was closed before this act"))
            self._acts.clear()
            self._wake.notify_all()

    def _next(self) -> bool:
        """One extension, else one act, else wait; False when there will be no more."""
        with self._wake:
            while self._acting or not (self._wanted or self._acts):
                left = self._idle_from - time.monotonic()
                if not self._acting and self._closing:
                    return False
                if not self._acting and left <= 0:
                    break
                self._wake.wait(self._idle_after if self._acting else left)
            urgent = next(iter(self._wanted.items()), None)
            waiting = self._acts.popleft() if urgent is None and self._acts else None
            self._acting = True
        try:
            if urgent is not None:
                self._extend(*urgent)
            elif waiting is not None:
                self._perform(*waiting)
            else:
                self._manager.give_back()
                self._note_work()
            self._expire()
        finally:
            self._acted()
        return True

    def _acted(self) -> None:
        with self._wake:
            self._acting = False
            if self._acts or self._wanted or self._closing:
                self._wake.notify_all()  # the mapper's thread may wait for its turn

    def _extend(self, vtensor: VTensor, rows: int) -> None:
        self._note_work()
        short = False
        try:
            self._manager.extend(vtensor, rows)
        except OutOfChunks:
            short = True
        with self._wake:
            wanted = self._wanted.get(vtensor)
            if wanted == rows and short:
                self._starved.add(vtensor)
            if wanted == rows or (wanted is not None and wanted <= vtensor.rows):
                del self._wanted[vtensor]
            self._wake.notify_all()

    def _perform(self, act: Callable[[], Any], future: Future[Any]) -> None:
        try:
            result = act()
        except (MemoryError, OutOfMemory) as error:
            future.set_exception(error)
            return
        except BaseException as error:
            future.set_exception(error)
            raise
        future.set_result(result)

    def _note_work(self) -> None:
        self._idle_from = time.monotonic() + self._idle_after

    def _expire(self) -> None:
        """Now and then, however busy: forget what nobody used for too long."""
        now = time.monotonic()
        if self._keep_unused is not None and now >= self._expiry:
            self._expiry = now + self._idle_after
            self._manager.expire(self._keep_unused)
