"""How much is asked for: by so many users who wait for their answers, or by new ones who come however long it takes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import msgspec


class Closed(msgspec.Struct, frozen=True, tag="closed"):
    """users: conversations held at once; whoever ends one begins the next."""

    users: int

    def __str__(self) -> str:
        return f"closed loop, {self.users} conversation{'s' * (self.users != 1)} at once"


class Open(msgspec.Struct, frozen=True, tag="open"):
    """rate: conversations that begin each second, at random moments (Poisson), however slow the server is."""

    rate: float

    def __str__(self) -> str:
        return f"open loop, {self.rate:g} conversations begin each second"


class Limits(msgspec.Struct, frozen=True):
    """conversations: how many are begun; None for any number.  seconds: after which no turn is sent; None for never.

    Running turns are always read to their end.
    """

    conversations: int | None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One process's part of a load: every `of`-th conversation, from number `index` on."""

    index: int
    of: int
    limits: Limits

    def numbers(self) -> Iterator[int]:
        """Of its conversations."""
        most = self.limits.conversations
        return iter(count(self.index, self.of) if most is None else range(self.index, most, self.of))

    def users(self, load: Closed) -> int:
        """How many of them it plays."""
        return load.users // self.of + (self.index < load.users % self.of)

    def arrivals(self, load: Open, seed: int) -> Iterator[tuple[int, float]]:
        """Its conversations, with the seconds after which they begin: the same for any number of processes."""
        source, moment, most = random.Random(f"{seed}/arrivals"), 0.0, self.limits.conversations
        for number in count() if most is None else range(most):
            moment += source.expovariate(load.rate)
            if number % self.of == self.index:
                yield number, moment
