"""Who computes now what others could share: they wait for it to be recorded (public report A11)."""

from __future__ import annotations

from collections import defaultdict
from typing import Protocol

import numpy as np

from chatserve.engine.request import Tokens

Start = tuple[str, int]
"""A tenant, and how far a prompt of theirs is computed."""


class Prompt(Protocol):
    """Tokens to compute, by whom, and in which order.  reuse: whether any of them may be shared."""

    @property
    def tenant(self) -> str: ...

    @property
    def prompt(self) -> Tokens: ...

    @property
    def reuse(self) -> bool: ...

    @property
    def place(self) -> tuple[int, int]: ...


class Leaders:
    """Prompts of which at least `share_from` tokens are still to be computed, found by the next of these.

    A crowd asks at once: looking a prompt up does not depend on how many lead, only on from where.
    """

    def __init__(self, share_from: int) -> None:
        self._share_from = share_from
        self._by_part: defaultdict[Start, defaultdict[bytes, list[Prompt]]] = defaultdict(lambda: defaultdict(list))

    def add(self, leader: Prompt, start: int) -> None:
        """Let others follow one that has its first `start` tokens, if there is enough to share."""
        if leader.reuse and len(leader.prompt) - start >= self._share_from:
            self._by_part[leader.tenant, start][self._part(leader, start)].append(leader)

    def leads(self, follower: Prompt) -> bool:
        """Whether an earlier or more urgent one computes now what this one could share."""
        if not follower.reuse:
            return False
        for (tenant, start), by_part in self._by_part.items():
            if tenant != follower.tenant or start + self._share_from >= len(follower.prompt):
                continue
            for leader in by_part.get(self._part(follower, start), ()):
                if leader.place <= follower.place and np.array_equal(follower.prompt[:start], leader.prompt[:start]):
                    return True
        return False

    def _part(self, prompt: Prompt, start: int) -> bytes:
        return prompt.prompt[start : start + self._share_from].tobytes()
