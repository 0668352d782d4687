"""Servers measured in turn with the same words, as `chatserve bench --compare` does it, for programs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from rich.console import Console

from chatserve.bench.bench import Bench
from chatserve.bench.load import Closed, Limits
from chatserve.bench.preflight import served_model
from chatserve.bench.record import Record, Terms
from chatserve.bench.screen import show, watching
from chatserve.bench.talks import Manner
from chatserve.bench.target import Target
from chatserve.bench.texts import Generated
from chatserve.bench.user import Service
from chatserve.bench.workload import Spread, Workload

TIMEOUT = 600.0
WARM_UP = Workload(seed=0, turns=Spread(1), system=0, first=Spread(8), answer=Spread(4))


class TurnFailed(Exception):
    """A measurement with failures in it is none."""


def service_at(url: str, **fields: Any) -> Service:
    """The first model of a server.  fields: further ones of every request. Raises NotServing."""
    target = Target.parse(url)
    return Service(target, Manner(asyncio.run(served_model(target, None)), extra=fields), timeout=TIMEOUT)


def measured(
    services: Sequence[Service], workload: Workload, *, users: int, conversations: int, rounds: int = 1
) -> Record:
    """One server, or two in turn, each warmed up first. Raises TurnFailed."""
    for service in services:
        _bench([service], WARM_UP, 1, 1, 1)
    record = _bench(services, workload, users, conversations, rounds)
    show(record, Console(width=120))
    return record


def _bench(services: Sequence[Service], workload: Workload, users: int, conversations: int, rounds: int) -> Record:
    terms = Terms(
        workload=workload,
        texts="generated",
        load=Closed(users),
        limits=Limits(conversations),
        slo=None,
        fixed_length=True,
        processes=1,
    )
    watch = partial(watching, Console(stderr=True), limits=terms.limits, turns=workload.turns.mean)
    record = Bench(services=services, texts=Generated(), terms=terms, rounds=rounds).measure(watch)
    for run in record.runs:
        failures = [turn.failure for turn in run.turns if turn.failure is not None]
        if failures:
            raise TurnFailed(f"{record.servers[run.server].url}: {failures[0].kind}: {failures[0].told}")
    return record
