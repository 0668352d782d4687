"""FlexInfer's request scheduling (vTensor paper, section 6, algorithm 1): who runs, how many tokens, who is preempted.

Policy only: it knows nothing of tensors and calls nobody. A step has a budget of tokens; everyone who lacks one token
(a decode) gets it, then the rest goes to those who lack more (prompts and returning turns, in chunks), in order of
priority and arrival.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from chatserve.engine.leaders import Leaders
from chatserve.engine.request import Request, Status


@dataclass(frozen=True, slots=True)
class Row:
    """One request's part of a step: `count` tokens from `start` on; `samples` when a token comes of it."""

    request: Request
    start: int
    count: int
    samples: bool


class Scheduler:
    """max_running: requests in one step.  step_tokens: tokens in one step; at least max_running.

    share_from: tokens; a waiting request with at least so many in common with a prompt being computed now waits for
    them to be recorded instead of computing them again.
    """

    def __init__(self, *, max_running: int, step_tokens: int, share_from: int) -> None:
        assert step_tokens >= max_running, "every decode must fit into a step"
        self.max_running = max_running
        self.step_tokens = step_tokens
        self._share_from = share_from
        self.waiting: list[Request] = []
        self.running: list[Request] = []

    def wait(self, request: Request) -> None:
        """Queue a new or a preempted request at its place."""
        request.status = Status.WAITING
        insort(self.waiting, request, key=lambda request: request.place)

    def run(self, request: Request) -> None:
        """Its memory is there."""
        request.status = Status.RUNNING
        insort(self.running, request, key=lambda request: request.place)

    def remove(self, request: Request) -> None:
        """It ended, or left."""
        for queue in (self.waiting, self.running):
            if request in queue:
                queue.remove(request)

    def admissible(self, most: int) -> list[Request]:
        """Up to so many waiting requests to admit now, in order; only who waits for another's prompt is overtaken.

        Some may be led by others of them: that is known once memory has said what is recorded of those.
        """
        return self._candidates(min(most, self.max_running - len(self.running)))

    def victim(self) -> Request:
        """Who is preempted when memory is short: the lowest priority, then the latest arrival."""
        return self.running[-1]

    def displaced(self) -> Request | None:
        """Who makes room for the first of those who wait: only one of lower priority."""
        first = next(iter(self._candidates(1)), None)
        victim = self.running[-1] if self.running else None
        return victim if first is not None and victim is not None and victim.priority > first.priority else None

    def plan(self) -> list[Row]:
        """The step after those in flight."""
        budget = self.step_tokens
        rows: list[Row] = []
        for request in self._decodes_first():
            count = min(request.remaining, budget)
            if count > 0:
                start = request.computed + request.in_flight
                rows.append(Row(request, start, count, samples=count == request.remaining and not request.warms))
                budget -= count
        return rows

    def next_count(self, row: Row) -> int:
        """Tokens that the step after this row can ask of its request."""
        return min(max(1, row.request.remaining - row.count), self.step_tokens)

    def _decodes_first(self) -> Iterator[Request]:
        going_on = [request for request in self.running if request.goes_on and not self._reaches_its_end(request)]
        yield from (request for request in going_on if request.remaining == 1)
        yield from (request for request in going_on if request.remaining > 1)

    def _reaches_its_end(self, request: Request) -> bool:
        """Whether the tokens in flight are the last it may generate."""
        return request.coming > 0 and len(request.output) + request.coming >= request.params.max_tokens

    def _candidates(self, most: int) -> list[Request]:
        if most <= 0 or not self.waiting:
            return []
        leaders = Leaders(self._share_from)
        for request in self.running:
            leaders.add(request, request.computed)
        leavers = [request for request in self.running if request.stop_at is not None]
        chosen: list[Request] = []
        for request in self.waiting:
            if leaders.leads(request) or any(self._goes_on(request, leaver) for leaver in leavers):
                continue
            chosen.append(request)
            if len(chosen) >= most:
                break
        return chosen

    def _goes_on(self, request: Request, leaver: Request) -> bool:
        """Whether this is the next turn of one that was stopped and is recorded as soon as its last step has ended."""
        assert leaver.stop_at is not None
        if not request.reuse or request.tenant != leaver.tenant:
            return False
        kept = leaver.tokens(0, len(leaver.prompt) + leaver.stop_at)
        return len(kept) < len(request.prompt) and np.array_equal(request.prompt[: len(kept)], kept)
