"""One user: holds conversations with a server, one after another, and tells what became of each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from chatserve.bench.connection import Connection, Sent, clock
from chatserve.bench.dialects import BadAnswer
from chatserve.bench.measuring import Asked, Reading
from chatserve.bench.outcome import Failure, Outcome
from chatserve.bench.plan import ConversationPlan, TurnPlan
from chatserve.bench.talks import Manner, Stateful, Stateless, Talk
from chatserve.bench.target import Target

Tell = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True)
class Service:
    """A server, and how it is asked. stateful: it keeps the conversations.  timeout: seconds that one turn may take."""

    target: Target
    manner: Manner
    stateful: bool = False
    timeout: float = 300.0

    def talk(self, plan: ConversationPlan) -> Talk:
        return (Stateful if self.stateful else Stateless)(plan, self.manner)


@dataclass(frozen=True, slots=True)
class Hours:
    """Moments on `clock`: turns that are due before `warm_until` are in no figure, none is sent after `end`."""

    begin: float
    warm_until: float
    end: float | None


class User:
    """Has one connection."""

    def __init__(self, service: Service, hours: Hours, tell: Tell, *, open_loop: bool) -> None:
        self._service = service
        self._hours = hours
        self._tell = tell
        self._open_loop = open_loop
        self._connection = Connection(service.target, service.timeout)

    def close(self) -> None:
        self._connection.close()

    async def converse(self, plan: ConversationPlan, due: float) -> bool:
        """Turn after turn, the first at `due`; it ends with the first failure. Whether there was none."""
        talk = self._service.talk(plan)
        for number, turn in enumerate(plan.turns):
            due += turn.think
            await asyncio.sleep(max(0.0, due - clock()))
            if self._hours.end is not None and clock() >= self._hours.end:
                return True
            asked = self._asked(plan, number, turn, due)
            outcome = await self._turn(talk, turn, asked)
            self._tell(outcome)
            if outcome.failure is not None:
                return False
            due = outcome.ended
        return True

    def _asked(self, plan: ConversationPlan, number: int, turn: TurnPlan, due: float) -> Asked:
        return Asked(
            conversation=plan.number,
            turn=number,
            due=due,
            open_loop=self._open_loop,
            exact=turn.answer if self._service.manner.fixed_length else None,
            branch=turn.branch,
            priority=plan.priority,
            warm=due < self._hours.warm_until,
        )

    async def _turn(self, talk: Talk, turn: TurnPlan, asked: Asked) -> Outcome:
        reading, sent = Reading(talk.dialect), Sent()
        try:
            if asked.turn == 0 and talk.opening is not None:
                talk.opened(await self._connection.fetch("POST", talk.opening, b"{}"))
            body = talk.ask(turn)
            stayed = await self._connection.stream(talk.dialect.path, body, reading, sent, turn.cancel_after)
            talk.answered(reading.text, reading.response_id)
        except BadAnswer as error:
            return reading.outcome(asked, sent.at, clock(), failure=Failure(error.kind, str(error)))
        return reading.outcome(asked, sent.at, clock(), cancelled=not stayed)
