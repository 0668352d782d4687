"""The step loop: admit, launch, extend ahead, commit (FlexInfer, section 6 of the vTensor paper).

While steps compute, the next is planned, the mapper maps the rows it will need, and new requests are matched. Where the
device computes by itself the next step is launched before the one before has ended: the token that it goes on from is
known there, and read here a step late. Only the engine's own thread calls it; what happens elsewhere (a step ends,
memory is there) calls `wake`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from chatserve.engine.admissions import Admissions
from chatserve.engine.answers import Answers
from chatserve.engine.batch import make_batch
from chatserve.engine.counters import Counters, engine_stats
from chatserve.engine.intake import Refused, accept
from chatserve.engine.memory import Memory, Seen
from chatserve.engine.messages import Delta, EngineStats, Generate
from chatserve.engine.request import Request, Status, Tokens
from chatserve.engine.scheduler import Row, Scheduler
from chatserve.model.errors import BadLogits
from chatserve.model.runner import Launched, Runner
from vtensor.prefix import PrefixMemory
from vtensor.reusing import Admitted
from vtensor.stats import MemoryStats

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Flight:
    """A step that computes now, or waits for the one before."""

    rows: Sequence[Row]
    launched: Launched


class Engine:
    """end_ids: tokens that end an answer unless a request ignores them.  vocab_size: prompts hold smaller ids.

    depth: steps launched at once; 1 where they would only wait for each other.
    wake: called, from any thread, when `advance` has something to do.
    """

    def __init__(
        self,
        *,
        runner: Runner,
        memory: Memory,
        scheduler: Scheduler,
        end_ids: Sequence[int],
        vocab_size: int,
        depth: int,
        wake: Callable[[], None],
    ) -> None:
        self._runner = runner
        self._memory = memory
        self._scheduler = scheduler
        self._vocab_size = vocab_size
        self._wake = wake
        self._admissions = Admissions(scheduler, memory, wake)
        self.counters = Counters()
        self._answers = Answers(
            memory=memory,
            scheduler=scheduler,
            admissions=self._admissions,
            counters=self.counters,
            end_ids=end_ids,
        )
        self._depth = depth
        self._flights: deque[Flight] = deque()
        self._prepared: list[Row] = []
        self._arrivals = count()

    @property
    def busy(self) -> bool:
        """Whether anything waits, runs or is to be told; an ended answer that awaits its Stop does none of these."""
        scheduler = self._scheduler
        return bool(
            scheduler.waiting or scheduler.running or self._admissions.pending or self._flights or self._answers.untold
        )

    def add(self, asked: Generate) -> None:
        """Queue a request. What can never fit is refused at once, by a delta that names the limit."""
        try:
            if asked.id in self._answers.requests:
                raise Refused(f"a request with the id {asked.id!r} is running already")
            request = accept(
                asked, arrival=next(self._arrivals), capacity=self._memory.capacity, vocab_size=self._vocab_size
            )
        except Refused as refusal:
            self._answers.refuse(asked.id, str(refusal))
            return
        self._answers.overtake(request)
        self._answers.requests[request.id] = request
        self._scheduler.wait(request)

    def stop(self, request_id: str, keep: int | None) -> None:
        """End a request, of whose output the first `keep` tokens were kept (None: all). Harmless when it has gone."""
        request = self._answers.requests.get(request_id)
        if request is None:
            return
        if request.stop_at is None:
            request.stop_at = len(request.output) if keep is None else min(keep, len(request.output))
        if request.in_flight == 0 and request.status is not Status.ADMITTED:
            self._answers.leave(request)

    def flush(self) -> Future[None]:
        """Forget recorded prefixes and give free memory back."""
        self._runner.trim()
        self._admissions.note_release()
        return self._memory.flush()

    def look(self, tenant: str, tokens: Tokens) -> Future[PrefixMemory]:
        """What is recorded of these tokens now; changes nothing."""
        return self._waking(self._memory.look(tenant, tokens))

    def warm(self, tenant: str, tokens: Tokens) -> Future[PrefixMemory]:
        """Have a warm slot for who goes on from these tokens, if they are recorded; computes nothing."""
        return self._waking(self._memory.warm(tenant, tokens))

    def picture(self, tenant: str, *, most: int, focus: Collection[str]) -> Future[Seen]:
        """What this tenant has recorded now, at most so many nodes of it; changes nothing.

        focus: labels whose leaves are in it however long they were not used.
        """
        return self._waking(self._memory.picture(tenant, most=most, focus=focus))

    def advance(self) -> list[Delta]:
        """Do what can be done now; never waits for a step. Returns what there is to tell."""
        self._memory.check()
        self._take_admissions()
        while self._flights and self._flights[0].launched.done():
            self._commit(self._flights.popleft())
        if self._flights and self._answers.untold:
            self._wake()  # for the rest, which can wait: the device is busy, and whoever reads is not
            return self._answers.tell()
        self._admissions.ask(at_once=not (self._flights or self._scheduler.running))
        self._take_admissions()
        while len(self._flights) < self._depth and self._launch():
            pass
        if self._flights and not self._prepared:
            self._prepare()
        if self._admissions.short:
            self._reclaim()
        self._admissions.ask(at_once=False)  # also for whoever was just preempted: nothing else may be left to do
        return self._answers.tell()

    def running(self) -> Sequence[Request]:
        """Who runs now, to be looked at only."""
        return tuple(self._scheduler.running)

    def stats(self, memory: MemoryStats | None = None) -> EngineStats:
        """Measured now. memory: where that is measured already."""
        return engine_stats(memory or self._memory.stats(), self.counters, self._scheduler)

    def audit(self) -> None:
        """Prove that memory's books balance and that nothing runs that nobody asked for. Raises AssertionError."""
        self._memory.audit()
        for request in (*self._scheduler.waiting, *self._scheduler.running):
            assert self._answers.requests.get(request.id) is request, f"{request.id} runs and nobody knows of it"
            assert (request.vtensor is None) == (request.status is Status.WAITING)

    def close(self) -> None:
        """End the step in flight and give all memory back."""
        self._runner.close()
        self._memory.close()

    def _take_admissions(self) -> None:
        for request, admission in self._admissions.answered():
            if isinstance(admission, Admitted):
                self._start(request, admission)
            elif request.stop_at is not None:
                self._answers.leave(request)
            elif request.warms and admission is not None:
                self._answers.drop(request)
            elif admission is None or self._anyone_holds_memory() or not self._admissions.short:
                self._scheduler.wait(request)
            else:
                # Alone, and still not enough: other programs hold the device's memory.
                self._answers.fail(request, f"no memory for this conversation now: {admission}")

    def _waking(self, answer: Future[T]) -> Future[T]:
        answer.add_done_callback(lambda _: self._wake())
        return answer

    def _anyone_holds_memory(self) -> bool:
        return any(request.vtensor is not None for request in self._answers.requests.values())

    def _reclaim(self) -> bool:
        """Record the longest ended answer whose Stop has not come: it gives its memory up and loses its takeover."""
        for request in self._answers.requests.values():
            if request.status is Status.ENDED and request.vtensor is not None and request.in_flight == 0:
                self._memory.record(request, request.computed).result()
                self._admissions.note_release()
                return True
        return False

    def _start(self, request: Request, admission: Admitted) -> None:
        request.vtensor, request.computed = admission.vtensor, admission.cached
        if request.found is None:
            request.found = admission.reuse
            if not request.warms:
                self.counters.note_prompt(len(request.prompt), admission.reuse)
        if request.stop_at is not None:
            self._answers.leave(request)
            return
        self._scheduler.run(request)
        self._prepared = []

    def _prepare(self) -> None:
        """Plan the step after those in flight and have its rows, and some more, mapped meanwhile."""
        self._prepared = self._scheduler.plan()
        for row in self._prepared:
            self._memory.extend_ahead(row.request, row.start + row.count, self._scheduler.next_count(row))

    def _launch(self) -> bool:
        """Launch the next step; False when there is none, or when it needs memory that those in flight still use."""
        if not self._make_room():
            return False
        rows = [row for row in self._prepared if row.request.goes_on]
        self._prepared = []
        rows = self._secure(rows or self._scheduler.plan())
        while not rows and self._scheduler.running and not self._flights:
            rows = self._secure(self._scheduler.plan())
        if not rows:
            return False
        for row in rows:
            row.request.in_flight += row.count
            row.request.coming += row.samples
        launched = self._runner.launch(make_batch(rows))
        self._flights.append(Flight(rows, launched))
        launched.when_done(self._wake)
        return True

    def _secure(self, rows: Sequence[Row]) -> list[Row]:
        """The rows whose memory is there. Where it is short, the lowest priority, latest arrival is preempted.

        Nobody is while a step is in flight: then there are no rows, and the next turn of the loop sees to it.
        """
        for row in rows:
            request, end = row.request, row.start + row.count
            self.counters.stalls += request.goes_on and not self._memory.has(request, end)
            while request.goes_on and not self._memory.ready(request, end):
                if self._reclaim():
                    continue
                if self._flights:
                    return []
                self._preempt(self._scheduler.victim())
        return [row for row in rows if row.request.goes_on]

    def _make_room(self) -> bool:
        """Preempt for a waiting request of higher priority that found no memory or no place; False: not yet."""
        full = len(self._scheduler.running) >= self._scheduler.max_running
        if self._admissions.short or (full and not self._admissions.pending):
            victim = self._scheduler.displaced()
            if victim is not None:
                if self._flights:
                    return False
                self._preempt(victim)
                self._admissions.ask(at_once=False)
        return True

    def _preempt(self, request: Request) -> None:
        """PrefixRecord and Release; it resumes by PrefixMatch, with every token it has."""
        assert request.in_flight == 0
        if request.warms:
            self._answers.drop(request)
            return
        self._scheduler.remove(request)
        self._memory.record(request, request.computed).result()
        self._admissions.note_release()
        request.computed = 0
        self.counters.preemptions += 1
        self._scheduler.wait(request)

    def _commit(self, flight: Flight) -> None:
        """Take in what a step brought."""
        try:
            tokens = flight.launched.tokens()
        except BadLogits as error:
            tokens = error.tokens
        self._answers.take_in(flight.rows, tokens)
