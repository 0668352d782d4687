"""Many users in one event loop: one process's part of a load."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from chatserve.bench.connection import clock
from chatserve.bench.load import Closed, Limits, Open, Part
from chatserve.bench.plan import ConversationPlan, Conversations
from chatserve.bench.user import Hours, Service, Tell, User

AFTER_FAILURE: Final = 0.5
"""Seconds that a user of a closed loop waits after a failure: a server that refuses at once is not to be hammered."""


@dataclass(frozen=True, slots=True)
class Run:
    """A load on a server: everything but when it begins. warm_up: seconds.  seed: of the arrivals in an open loop."""

    service: Service
    conversations: Conversations
    load: Closed | Open
    limits: Limits
    seed: int
    warm_up: float = 0.0

    def hours(self, begin: float) -> Hours:
        seconds = self.limits.seconds
        return Hours(begin, begin + self.warm_up, None if seconds is None else begin + seconds)


async def play(run: Run, part: Part, begin: float, tell: Tell) -> None:
    """From `begin` (on `clock`) until all of it is done."""
    hours = run.hours(begin)
    match run.load:
        case Closed():
            numbers = part.numbers()
            await asyncio.gather(*(_in_turn(run, hours, numbers, tell) for _ in range(part.users(run.load))))
        case Open():
            await _as_they_come(run, hours, part.arrivals(run.load, run.seed), tell)


async def _in_turn(run: Run, hours: Hours, numbers: Iterator[int], tell: Tell) -> None:
    """One user of a closed loop; all of them take from one row of numbers."""
    user, good = User(run.service, hours, tell, open_loop=False), True
    try:
        for number in numbers:
            if not good:
                await asyncio.sleep(AFTER_FAILURE)
            if hours.end is not None and clock() >= hours.end:
                return
            plan = run.conversations.plan(number)  # the first ones are all made before `begin`
            good = await user.converse(plan, max(hours.begin, clock()))
    finally:
        user.close()


async def _as_they_come(run: Run, hours: Hours, arrivals: Iterator[tuple[int, float]], tell: Tell) -> None:
    free: list[User] = []

    async def converse(plan: ConversationPlan, due: float) -> None:
        user = free.pop() if free else User(run.service, hours, tell, open_loop=True)
        try:
            await user.converse(plan, due)
        finally:
            free.append(user)

    try:
        async with asyncio.TaskGroup() as group:
            for number, after in arrivals:
                plan, due = run.conversations.plan(number), hours.begin + after
                await asyncio.sleep(max(0.0, due - clock()))
                if hours.end is not None and clock() >= hours.end:
                    break
                group.create_task(converse(plan, due))
    finally:
        for user in free:
            user.close()
