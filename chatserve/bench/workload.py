"""The shape of a load: how long conversations are, how their users behave. A seed gives the same load everywhere."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

import msgspec

from chatserve.bench.plan import ConversationPlan, TurnPlan
from chatserve.bench.texts import Texts

LONGEST_THOUGHT: Final = 20.0
"""No user thinks longer than so many times the median: the tail of a lognormal would outlast the run."""


class Spread(msgspec.Struct, frozen=True):
    """Whole numbers drawn evenly from mean - spread to mean + spread, and never below `least`."""

    mean: int
    spread: int = 0

    def draw(self, source: random.Random, least: int = 1) -> int:
        return max(least, source.randint(self.mean - self.spread, self.mean + self.spread))

    def __str__(self) -> str:
        return f"{self.mean}:{self.spread}" if self.spread else str(self.mean)


class Think(msgspec.Struct, frozen=True):
    """Seconds between an answer and the next message: lognormal. sigma: of its logarithm; 0 for always the median."""

    median: float = 0.0
    sigma: float = 0.0

    def draw(self, source: random.Random) -> float:
        factor = math.exp(self.sigma * source.gauss(0.0, 1.0))
        return self.median * min(factor, LONGEST_THOUGHT)

    def __str__(self) -> str:
        return f"{self.median:g}:{self.sigma:g}" if self.sigma else f"{self.median:g}"


class Share(msgspec.Struct, frozen=True):
    """weight: of the conversations with this priority, among all weights."""

    priority: int
    weight: float = 1.0


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """turns: a conversation.  system: words of the system prompt; 0 for none.  system_shared: how many conversations,
    one after another, share one; 0 for all.

    first, later: words of the first and of later messages.  answer: tokens.  think: from the second turn on.
    branch_rate: of later turns, those that take the last exchange's place.
    cancel_rate: of all turns, those whose reader leaves somewhere in the answer.
    priorities: one of them for a whole conversation.
    warm_up: turns sent in the first so many seconds are in no figure.
    """

    seed: int = 1
    turns: Spread = Spread(4)
    system: int = 200
    system_shared: int = 0
    first: Spread = Spread(100)
    later: Spread = Spread(40)
    answer: Spread = Spread(64)
    think: Think = Think()
    branch_rate: float = 0.0
    cancel_rate: float = 0.0
    priorities: tuple[Share, ...] = (Share(0),)
    warm_up: float = 0.0


@dataclass(frozen=True, slots=True)
class Held:
    """A workload with the texts that are said in it: `Conversations`."""

    workload: Workload
    texts: Texts

    def plan(self, number: int) -> ConversationPlan:
        """Every aspect is drawn from a source of its own: another branch rate changes no word and no length."""
        load = self.workload
        lengths, users = self._source("lengths", number), self._source("users", number)
        count = load.turns.draw(lengths)
        words = [(load.later if turn else load.first).draw(lengths) for turn in range(count)]
        answers = [load.answer.draw(lengths) for _ in range(count)]
        messages = self.texts.messages(load.seed, number, words)
        shared = number // load.system_shared if load.system_shared else 0
        weights = [share.weight for share in load.priorities]
        return ConversationPlan(
            number=number,
            system=self.texts.system(load.seed, shared, load.system) if load.system else None,
            priority=users.choices(load.priorities, weights)[0].priority,
            turns=tuple(
                self._turn(users, turn, message, answer)
                for turn, (message, answer) in enumerate(zip(messages, answers, strict=False))
            ),
        )

    def _turn(self, users: random.Random, turn: int, message: str, answer: int) -> TurnPlan:
        """As many numbers are drawn for every turn, whatever becomes of them."""
        think, branch, cancel = self.workload.think.draw(users), users.random(), users.random()
        leaves = users.randint(1, max(1, answer - 1))
        return TurnPlan(
            message=message,
            answer=answer,
            think=think if turn else 0.0,
            branch=turn > 0 and branch < self.workload.branch_rate,
            cancel_after=leaves if cancel < self.workload.cancel_rate else None,
        )

    def _source(self, aspect: str, number: int) -> random.Random:
        return random.Random(f"{self.workload.seed}/{aspect}/{number}")
