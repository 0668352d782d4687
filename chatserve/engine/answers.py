"""The requests under way, and what there is to tell of them: takes in what steps bring, and ends what has ended."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chatserve.engine.admissions import Admissions
from chatserve.engine.counters import Counters
from chatserve.engine.memory import Memory
from chatserve.engine.messages import Delta, Reuse
from chatserve.engine.request import Request, Status
from chatserve.engine.scheduler import Row, Scheduler
from chatserve.engine.telling import tell_reuse
from chatserve.model.sampler import NOT_FINITE


class Answers:
    """end_ids: tokens that end an answer unless a request ignores them."""

    def __init__(
        self,
        *,
        memory: Memory,
        scheduler: Scheduler,
        admissions: Admissions,
        counters: Counters,
        end_ids: Sequence[int],
    ) -> None:
        self._memory = memory
        self._scheduler = scheduler
        self._admissions = admissions
        self._counters = counters
        self._end_ids = frozenset(end_ids)
        self._deltas: list[Delta] = []
        self.requests: dict[str, Request] = {}

    @property
    def untold(self) -> bool:
        """Whether there is something to tell."""
        return bool(self._deltas)

    def tell(self) -> list[Delta]:
        """What there is to tell since the last time."""
        deltas, self._deltas = self._deltas, []
        return deltas

    def refuse(self, request_id: str, error: str) -> None:
        """It never becomes a request."""
        self._deltas.append(Delta(id=request_id, finish="refused", error=error))

    def take_in(self, rows: Sequence[Row], tokens: Sequence[int]) -> None:
        """What a step brought. tokens: one for each row that was sampled, in order."""
        self._counters.steps += 1
        sampled = iter(tokens)
        for row in rows:
            request = row.request
            request.computed += row.count
            request.in_flight -= row.count
            request.coming -= row.samples
            self._counters.computed_tokens += row.count
            token = next(sampled) if row.samples else None
            if request.finish is not None or request.stop_at is not None:
                self.settle(request)
                continue
            if token == NOT_FINITE:
                self.fail(request, "the model's numbers are not finite for this conversation", trusted=False)
                continue
            if request.warms:
                self._warmed(request)
            elif row.count > 1 and request.reuse:
                self._memory.publish(request)
            if token is not None:
                self._append(request, token)

    def _append(self, request: Request, token: int) -> None:
        self._counters.generated_tokens += 1
        params = request.params
        ends = token in params.stop_token_ids or (token in self._end_ids and not params.ignore_eos)
        if ends:
            request.finish = "stop"
        else:
            request.output.append(token)
            if len(request.output) >= params.max_tokens:
                request.finish = "length"
        request.generated += 1
        if request.finish is None:
            reuse = _told_first(request)
            self._deltas.append(Delta(id=request.id, tokens=(token,), reuse=reuse, completion_tokens=request.generated))
            return
        request.last = () if ends else (token,)
        self._end(request)

    def _warmed(self, request: Request) -> None:
        """Once all is computed it is recorded; not before, so that a drop leaves nothing behind."""
        if request.remaining == 0 and request.in_flight == 0:
            request.finish = "length"
            self._end(request)

    def _end(self, request: Request) -> None:
        self._scheduler.remove(request)
        request.status = Status.ENDED
        self.settle(request)

    def overtake(self, request: Request) -> None:
        """A turn ends the warm-ups of its past: it waits until what they computed is recorded, and goes on there."""
        for other in list(self.requests.values()):
            if other.warms and other.stop_at is None and _goes_on(request, other):
                self._deltas.append(Delta(id=other.id, finish="dropped"))
                other.stop_at = 0
                if other.in_flight == 0 and other.status is not Status.ADMITTED:
                    self.leave(other)

    def drop(self, request: Request) -> None:
        """Memory is short, and nobody waits for this."""
        self._deltas.append(Delta(id=request.id, finish="dropped"))
        self._scheduler.remove(request)
        request.status = Status.ENDED
        del self.requests[request.id]
        if request.vtensor is not None:
            self._memory.release(request).result()  # before the extension it is dropped for
        self._admissions.note_release()

    def settle(self, request: Request) -> None:
        """Once nothing of it is in flight: tell how it ended by itself, then let it go, or hold it until its Stop.

        Told any earlier, the conversation's next turn could come before this one is recorded.
        """
        if request.in_flight:
            return
        if request.finish is not None and request.stop_at is None:
            self._deltas.append(
                Delta(
                    id=request.id,
                    tokens=request.last,
                    finish=request.finish,
                    reuse=_told_first(request),
                    completion_tokens=request.generated,
                )
            )
            if request.hold:
                return
            request.stop_at = len(request.output)
        self.leave(request)

    def fail(self, request: Request, error: str, *, trusted: bool = True) -> None:
        """End it by an error. Not trusted: its numbers are wrong, and so may be what others matched of them."""
        generated = len(request.output)
        self._deltas.append(
            Delta(
                id=request.id,
                finish="failed",
                reuse=_told(request),
                completion_tokens=generated,
                error=error,
            )
        )
        request.stop_at, request.trusted = 0, trusted
        self.settle(request)

    def leave(self, request: Request) -> None:
        """Record what was computed of what was kept, and forget the request."""
        assert request.stop_at is not None
        self._scheduler.remove(request)
        request.status = Status.ENDED
        del self.requests[request.id]
        if request.vtensor is not None and request.trusted:
            self._memory.record(request, min(request.computed, len(request.prompt) + request.stop_at))
        elif request.vtensor is not None:
            self._memory.distrust(request)
        self._admissions.note_release()


def _goes_on(request: Request, past: Request) -> bool:
    begins = request.prompt[: len(past.prompt)]
    may = request.reuse and not request.warms and request.tenant == past.tenant
    return may and np.array_equal(begins, past.prompt)


def _told_first(request: Request) -> Reuse | None:
    """With the first that is told of it."""
    return _told(request) if request.generated <= 1 else None


def _told(request: Request) -> Reuse | None:
    return None if request.found is None else tell_reuse(request.found)
