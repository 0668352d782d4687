"""Who computes now what others could share: they wait for it to be recorded (public report A11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from chatserve.engine.request import Request

Start = tuple[str, int]
"""A tenant, and how far a prompt of theirs is computed."""


class Leaders:
    """Requests that still have to compute at least `share_from` tokens of their prompts, found by the next of these.

    A crowd asks at once: looking a request up does not depend on how many lead, only on from where.
    """

    def __init__(self, requests: Iterable[Request], share_from: int) -> None:
        self._share_from = share_from
        self._by_part: defaultdict[Start, defaultdict[bytes, list[Request]]] = defaultdict(lambda: defaultdict(list))
        for request in requests:
            self.add(request)

    def add(self, request: Request) -> None:
        """Let others follow it, if there is enough to share."""
        start = request.computed
        if request.reuse and len(request.prompt) - start >= self._share_from:
            self._by_part[request.tenant, start][self._part(request, start)].append(request)

    def leads(self, request: Request) -> bool:
        """Whether an earlier or more urgent one computes now what this one could share."""
        if not request.reuse:
            return False
        for (tenant, start), by_part in self._by_part.items():
            if tenant != request.tenant or start + self._share_from >= len(request.prompt):
                continue
            for leader in by_part.get(self._part(request, start), ()):
                if leader.place <= request.place and np.array_equal(request.prompt[:start], leader.prompt[:start]):
                    return True
        return False

    def _part(self, request: Request, start: int) -> bytes:
        return request.prompt[start : start + self._share_from].tobytes()
