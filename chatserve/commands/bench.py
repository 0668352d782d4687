"""`chatserve bench`: how fast a server answers, ours or any OpenAI-compatible one."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from chatserve.bench import notation
from chatserve.bench.bench import Bench
from chatserve.bench.crew import ProcessDied
from chatserve.bench.curves import figures
from chatserve.bench.load import Closed, Limits, Open
from chatserve.bench.preflight import NotServing, served_model
from chatserve.bench.record import Record, Terms
from chatserve.bench.screen import show, watching
from chatserve.bench.slo import BadSlo, Slo
from chatserve.bench.talks import Manner
from chatserve.bench.target import BadUrl, Target
from chatserve.bench.texts import BadConversations, Generated, Recorded
from chatserve.bench.user import Service
from chatserve.bench.workload import Workload

ROUNDS, CONVERSATIONS, SECONDS = 2, 4, 30.0
"""Where nothing else is asked for: rounds of a comparison, conversations of each user, seconds of an open loop."""
PLOTS = "chatserve.bench.plots"


class CannotKeep(Exception):
    """What is measured could not be kept as it was asked; the message says why."""


REFUSALS = (CannotKeep, notation.BadNotation, BadConversations, BadSlo, BadUrl, NotServing, ProcessDied)


def run(
    *,
    url: str,
    compare: str | None,
    rounds: int | None,
    model: str | None,
    compare_model: str | None,
    api_key: str | None,
    compare_api_key: str | None,
    extra_body: str | None,
    compare_extra_body: str | None,
    stateful: bool,
    rate: float | None,
    concurrency: int,
    conversations: int | None,
    seconds: float | None,
    processes: int,
    turns: str,
    system: int,
    system_shared: int,
    first: str,
    later: str,
    answer: str,
    natural_ends: bool,
    think: str,
    branch_rate: float,
    cancel_rate: float,
    priorities: str,
    seed: int | None,
    texts: Path | None,
    warm_up: float,
    slo: str | None,
    timeout: float,
    json: Path | None,
    plots: Path | None,
) -> int:
    """Measure and tell; the exit status: 1 when a turn failed, 130 when it was stopped early."""
    try:
        check_files(json, plots)
        workload = Workload(
            seed=secrets.randbelow(1_000_000) if seed is None else seed,
            turns=notation.spread("--turns", turns),
            system=system,
            system_shared=system_shared,
            first=notation.spread("--first", first),
            later=notation.spread("--later", later),
            answer=notation.spread("--answer", answer),
            think=notation.think("--think", think),
            branch_rate=notation.rate("--branch-rate", branch_rate),
            cancel_rate=notation.rate("--cancel-rate", cancel_rate),
            priorities=notation.priorities("--priorities", priorities),
            warm_up=warm_up,
        )
        terms = Terms(
            workload=workload,
            texts="generated" if texts is None else texts.name,
            load=Closed(concurrency) if rate is None else Open(rate),
            limits=limits(None if rate is not None else concurrency, conversations, seconds),
            slo=None if slo is None else Slo.parse(slo),
            fixed_length=not natural_ends,
            processes=processes,
        )
        extra = notation.fields("--extra-body", extra_body)
        services = [service(url, model, api_key, extra, stateful=stateful, timeout=timeout)]
        if compare is not None:
            extra = notation.fields("--compare-extra-body", compare_extra_body or extra_body)
            services.append(service(compare, compare_model, compare_api_key, extra, stateful=stateful, timeout=timeout))
        bench = Bench(
            services=services,
            texts=Generated() if texts is None else Recorded.read(texts),
            terms=terms,
            rounds=rounds or (ROUNDS if compare else 1),
        )
        record = bench.measure(partial(watching, Console(stderr=True), limits=terms.limits, turns=workload.turns.mean))
    except REFUSALS as error:
        print(f"chatserve bench: {error}", file=sys.stderr)
        return 1
    show(record, Console())
    keep(record, json, plots)
    return status(record)


def check_files(json: Path | None, plots: Path | None) -> None:
    """Before a load, not after it. Raises CannotKeep."""
    if plots is not None and find_spec("matplotlib") is None:
        raise CannotKeep("--plots needs matplotlib: pip install 'chatserve[loadtest]'")
    for folder in (None if json is None else json.parent, plots):
        if folder is None:
            continue
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CannotKeep(f"{folder}: {error.strerror}; name another place") from None
        if not os.access(folder, os.W_OK):
            raise CannotKeep(f"{folder} cannot be written to; name another place")


def limits(users: int | None, conversations: int | None, seconds: float | None) -> Limits:
    """users: of a closed loop."""
    if conversations is None and seconds is None:
        return Limits(None, SECONDS) if users is None else Limits(CONVERSATIONS * users)
    return Limits(conversations, seconds)


def service(
    url: str, model: str | None, key: str | None, extra: Mapping[str, Any], *, stateful: bool, timeout: float
) -> Service:
    """Asked which model it serves. Raises BadUrl and NotServing."""
    target = Target.parse(url, key)
    manner = Manner(asyncio.run(served_model(target, model)), extra=extra)
    return Service(target, manner, stateful=stateful, timeout=timeout)


def keep(record: Record, json: Path | None, plots: Path | None) -> None:
    """As files."""
    if json is not None:
        json.write_bytes(msgspec.json.encode(record) + b"\n")
        print(f"kept in {json}; `chatserve bench report {json}` makes a page of it")
    if plots is not None:
        drawn = import_module(PLOTS).draw_all(figures(record), plots)
        print(f"{len(drawn)} plots are in {plots}")


def status(record: Record) -> int:
    """Of the process."""
    if any(run.interrupted for run in record.runs):
        return 130
    return 1 if any(summary.failed for summary in record.summaries) else 0
