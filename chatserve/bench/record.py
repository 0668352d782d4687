"""What a benchmark leaves behind: one JSON file, from which every number can be made again."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from chatserve.bench.crew import Performance
from chatserve.bench.definitions import DEFINITIONS
from chatserve.bench.load import Closed, Limits, Open
from chatserve.bench.outcome import Failure, Outcome
from chatserve.bench.slo import Slo
from chatserve.bench.statistics import Interval, ratio_of_medians
from chatserve.bench.summary import LATENCIES, Summary, over_loads, summary
from chatserve.bench.workload import Workload

COMPARED: Final = ("ttft_first", "ttft_later", "tpot", "e2e")
DRAWN_VALUES: Final = 4_000_000
"""A bootstrap of very many turns makes fewer draws: their medians hardly move."""


class Server(msgspec.Struct, frozen=True):
    """api: chat, or responses where the server keeps the conversations.  extra: further fields of every request."""

    url: str
    model: str
    api: Literal["chat", "responses"]
    extra: Mapping[str, Any] = {}


class ClientCost(msgspec.Struct, frozen=True):
    """Of the measuring.  cpu: seconds, of all processes that play users.  wall: seconds that they took them in.

    busiest: the most of a core that one of them took.  lag: the most that an event loop's p99 was late, in seconds.
    """

    cpu: float
    wall: float
    busiest: float
    lag: float


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One load on one server. server: its place among them.  turns: their moments in seconds from `began` on."""

    server: int
    round: int
    seed: int
    began: str
    interrupted: bool
    hopeless: Failure | None
    client: ClientCost
    summary: Summary
    turns: Sequence[Outcome]


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for. texts: where the words are from."""

    workload: Workload
    texts: str
    load: Closed | Open
    limits: Limits
    slo: Slo | None
    fixed_length: bool
    processes: int


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """summaries: one for each server, over its runs.  ratios: second server's median over the first's."""

    kind: Literal["chatserve bench"] = "chatserve bench"
    version: Literal[1] = 1
    began: str
    machine: Mapping[str, str | int | float | list[float]]
    definitions: Mapping[str, str]
    terms: Terms
    servers: Sequence[Server]
    runs: Sequence[RunRecord]
    summaries: Sequence[Summary]
    ratios: Mapping[str, Interval] | None


def run_record(done: Performance, slo: Slo | None, *, server: int, round_: int, seed: int) -> RunRecord:
    """As it is kept."""
    turns = [relative(turn, done.begin) for turn in sorted(done.outcomes, key=lambda turn: turn.begin)]
    return RunRecord(
        server=server,
        round=round_,
        seed=seed,
        began=now(),
        interrupted=done.interrupted,
        hopeless=done.hopeless,
        client=ClientCost(
            cpu=sum(cost.cpu for cost in done.costs),
            wall=max((cost.wall for cost in done.costs), default=0.0),
            busiest=max((cost.cpu / cost.wall for cost in done.costs if cost.wall), default=0.0),
            lag=max((cost.lag for cost in done.costs), default=0.0),
        ),
        summary=summary(turns, slo),
        turns=turns,
    )


def record(began: str, terms: Terms, servers: Sequence[Server], runs: Sequence[RunRecord]) -> Record:
    """All of it, with what the runs come to."""
    by_server = [[run for run in runs if run.server == place] for place in range(len(servers))]
    return Record(
        began=began,
        machine=machine(),
        definitions=DEFINITIONS,
        terms=terms,
        servers=servers,
        runs=runs,
        summaries=[over_loads([run.turns for run in each], terms.slo) for each in by_server],
        ratios=ratios(by_server[0], by_server[1], terms.workload.seed) if len(servers) == 2 else None,
    )


def ratios(first: Sequence[RunRecord], second: Sequence[RunRecord], seed: int) -> dict[str, Interval]:
    """Of the second's medians over the first's; without those that nothing was measured of."""
    found = {}
    for name in COMPARED:
        ours, theirs = _by_conversation(first, name), _by_conversation(second, name)
        groups = [(ours.get(key, ()), theirs.get(key, ())) for key in sorted({*ours, *theirs})]
        values = sum(len(group[0]) + len(group[1]) for group in groups)
        interval = ratio_of_medians(groups, seed, draws=max(200, min(1000, DRAWN_VALUES // max(1, values))))
        if interval is not None:
            found[name] = interval
    return found


def _by_conversation(runs: Sequence[RunRecord], name: str) -> dict[tuple[int, int], list[float]]:
    found: dict[tuple[int, int], list[float]] = {}
    for run in runs:
        for turn in run.turns:
            if turn.whole and not turn.warm:
                found.setdefault((run.round, turn.conversation), []).extend(LATENCIES[name](turn))
    return found


def relative(turn: Outcome, begin: float) -> Outcome:
    """Moments as seconds from `begin` on, to the microsecond."""
    moments = {
        name: round(moment - begin, 6)
        for name in ("due", "begin", "sent", "opened", "first", "ended")
        if (moment := getattr(turn, name)) is not None
    }
    return msgspec.structs.replace(turn, gaps=tuple(round(gap, 6) for gap in turn.gaps), **moments)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine() -> dict[str, str | int | float | list[float]]:
    """Of the client."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count() or 0,
        "python": platform.python_version(),
        "load": [round(each, 2) for each in os.getloadavg()],
    }
