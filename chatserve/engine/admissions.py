"""Asking memory for those who may start: one question at a time, so that nobody overtakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import zip_longest

from chatserve.engine.memory import Admission, Memory
from chatserve.engine.request import Request, Status
from chatserve.engine.scheduler import Scheduler

AT_ONCE = 16
"""Requests in one question: the first of a crowd compute while memory is found for the others."""


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, and how often memory had been given up by then."""

    requests: Sequence[Request]
    answer: Future[list[Admission]]
    releases: int


class Admissions:
    """Knows when asking again is of use: only once memory has been given up since the last refusal."""

    def __init__(self, scheduler: Scheduler, memory: Memory, wake: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._memory = memory
        self._wake = wake
        self._question: Question | None = None
        self._releases = 0
        self._refused_at: int | None = None

    @property
    def pending(self) -> bool:
        """Whether a question is under way."""
        return self._question is not None

    @property
    def short(self) -> bool:
        """Whether memory was refused and none has been given up since."""
        return self._refused_at == self._releases

    def note_release(self) -> None:
        """Somebody gave memory up, or will before the next question."""
        self._releases += 1

    def ask(self, *, at_once: bool) -> None:
        """Ask for everyone who may start now, unless that is under way or of no use.

        at_once: nobody runs, so nobody minds if the answer is found before this returns.
        """
        chosen = [] if self.pending or self.short else self._scheduler.admissible(AT_ONCE)
        if not chosen:
            return
        for request in chosen:
            self._scheduler.remove(request)
            request.status = Status.ADMITTED
        answer = self._memory.admit(chosen, headroom=len(self._scheduler.running), at_once=at_once)
        self._question = Question(chosen, answer, self._releases)
        answer.add_done_callback(lambda _: self._wake())

    def answered(self) -> list[tuple[Request, Admission]]:
        """Each request of a question that has its answer: a vTensor, why there is none, or None if it was not its turn.

        A refusal holds until memory is given up, counted from when the question was asked.
        """
        question = self._question
        if question is None or not question.answer.done():
            return []
        self._question = None
        admissions = question.answer.result()
        if admissions and isinstance(admissions[-1], Exception):
            self._refused_at = question.releases
        return list(zip_longest(question.requests, admissions))
