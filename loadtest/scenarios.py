"""The conversations of the loads that other servers were measured with: every byte is as it was then.

A seed gives the same words for any server.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from chatserve.bench.plan import ConversationPlan, TurnPlan
from chatserve.bench.words import WORDS


@dataclass(frozen=True, slots=True)
class Scenario:
    """clients: conversations held at once, each client one after another without thinking (closed loop).

    system, question, answer: tokens; all conversations of a scenario share their system prompt.
    processes: how many the clients are spread over.
    """

    clients: int
    conversations: int
    turns: int
    system: int
    question: int
    answer: int
    processes: int


SCENARIOS = {
    "A": Scenario(clients=1, conversations=1, turns=6, system=512, question=64, answer=64, processes=1),
    "B": Scenario(clients=8, conversations=8, turns=6, system=512, question=64, answer=64, processes=1),
    "C": Scenario(clients=64, conversations=64, turns=8, system=512, question=128, answer=128, processes=2),
    "D": Scenario(clients=256, conversations=256, turns=6, system=512, question=128, answer=128, processes=4),
    "E": Scenario(clients=16, conversations=16, turns=5, system=512, question=2048, answer=64, processes=1),
    # Warm-ups: of a busy server, and of the largest batch.
    "W": Scenario(clients=32, conversations=32, turns=3, system=512, question=128, answer=64, processes=1),
    "W2": Scenario(clients=256, conversations=256, turns=1, system=512, question=128, answer=32, processes=4),
    # Single questions, 64 tokens out: the notes' table.
    "N1": Scenario(clients=1, conversations=24, turns=1, system=32, question=32, answer=64, processes=1),
    "N8": Scenario(clients=8, conversations=96, turns=1, system=32, question=32, answer=64, processes=1),
    # A first look at whether anything works at all.
    "S": Scenario(clients=2, conversations=2, turns=2, system=64, question=32, answer=16, processes=1),
}
SUITES = {"notes": ("N1", "N8")}
"""Names that stand for several scenarios."""


def chosen(suite: str) -> list[str]:
    """The scenarios of `A,B,notes`. Raises ValueError for a name that is none."""
    names = [name for each in suite.split(",") for name in SUITES.get(each, (each,))]
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise ValueError(f"no scenario is called {', '.join(unknown)}; there are {', '.join([*SCENARIOS, *SUITES])}")
    return names


@dataclass(frozen=True, slots=True)
class Scripted:
    """The conversations of scenario `name`; all of them begin with one system prompt."""

    name: str
    seed: str

    def plan(self, number: int) -> ConversationPlan:
        """Of this number. The same for any server and in any process."""
        scenario = SCENARIOS[self.name]
        source = random.Random(f"{self.seed}-{self.name}-{number}")
        return ConversationPlan(
            number=number,
            system=_say(random.Random(f"{self.seed}-{self.name}-sys"), scenario.system),
            turns=tuple(_turn(source, scenario) for _ in range(scenario.turns)),
        )


def _turn(source: random.Random, scenario: Scenario) -> TurnPlan:
    turn = TurnPlan(message=_say(source, scenario.question), answer=scenario.answer)
    # Drawn and dropped: the load that other servers were measured with has a fixed answer at this place.
    _say(source, scenario.answer)
    return turn


def _say(source: random.Random, words: int) -> str:
    return " ".join(source.choices(WORDS, k=words))
