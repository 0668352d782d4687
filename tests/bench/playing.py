"""A small load on a server, in the test's own event loop."""

from __future__ import annotations

from dataclasses import replace

from chatserve.bench.connection import clock
from chatserve.bench.load import Closed, Limits, Open, Part
from chatserve.bench.outcome import Outcome
from chatserve.bench.plan import ConversationPlan
from chatserve.bench.playing import Run, play
from chatserve.bench.talks import Manner
from chatserve.bench.target import Target
from chatserve.bench.texts import Generated
from chatserve.bench.user import Service
from chatserve.bench.workload import Held, Spread, Workload

SMALL = Workload(turns=Spread(3), system=20, first=Spread(12), later=Spread(6), answer=Spread(8))
TWO = Closed(2)


def small_run(
    url: str,
    load: Closed | Open = TWO,
    *,
    workload: Workload = SMALL,
    conversations: int | None = 4,
    seconds: float | None = None,
    stateful: bool = False,
    timeout: float = 20.0,
    key: str | None = None,
) -> Run:
    service = Service(Target.parse(url, key), Manner("m"), stateful=stateful, timeout=timeout)
    limits = Limits(conversations, seconds)
    return Run(service, Held(workload, Generated()), load, limits, workload.seed, workload.warm_up)


async def outcomes_of(run: Run, part: Part | None = None) -> list[Outcome]:
    told: list[Outcome] = []
    await play(run, part or Part(0, 1, run.limits), clock(), told.append)
    return told


class _Broken:
    """Conversations that are a bug."""

    def plan(self, number: int) -> ConversationPlan:
        raise AssertionError(f"the process of a test dies here, as it should, at {number}")


def broken_run(url: str) -> Run:
    """Whose process dies."""
    return replace(small_run(url), conversations=_Broken())
