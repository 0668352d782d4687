"""A whole benchmark: one server, or two in turn, and the record of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import msgspec

from chatserve.bench.crew import perform_all
from chatserve.bench.playing import Run
from chatserve.bench.record import Record, RunRecord, Server, Terms, now, record, run_record
from chatserve.bench.screen import Watch
from chatserve.bench.texts import Texts
from chatserve.bench.user import Service
from chatserve.bench.workload import Held


class Watching(Protocol):
    """Shows one load, of so many, while it runs."""

    def __call__(self, name: str) -> AbstractContextManager[Watch]: ...


@dataclass(frozen=True, slots=True)
class Bench:
    """services: one server, or the two to be compared.  rounds: how often each of them is measured."""

    services: Sequence[Service]
    texts: Texts
    terms: Terms
    rounds: int = 1

    def measure(self, watching: Watching) -> Record:
        """Every load in turn; Ctrl-C ends it with what there is. Raises ProcessDied."""
        began, runs = now(), list[RunRecord]()
        for round_, server in order(len(self.services), self.rounds):
            run = self._run(round_, server)
            with watching(self._name(round_, server)) as watch:
                done = perform_all(run, self.terms.processes, watch.show)
            runs.append(run_record(done, self.terms.slo, server=server, round_=round_, seed=run.seed))
            if done.interrupted or done.hopeless:
                break
        return record(began, self.terms, [described(service) for service in self.services], runs)

    def _run(self, round_: int, server: int) -> Run:
        """A round's seed is its own: no server sees a text twice, and both see the same ones."""
        workload = msgspec.structs.replace(self.terms.workload, seed=self.terms.workload.seed + round_)
        service = self.services[server]
        manner = replace(service.manner, fixed_length=self.terms.fixed_length)
        return Run(
            service=replace(service, manner=manner),
            conversations=Held(workload, self.texts),
            load=self.terms.load,
            limits=self.terms.limits,
            seed=workload.seed,
            warm_up=workload.warm_up,
        )

    def _name(self, round_: int, server: int) -> str:
        if len(self.services) == 1:
            return str(self.services[server].target)
        return f"{'AB'[server]}, round {round_ + 1} of {self.rounds}"


def order(servers: int, rounds: int) -> Iterator[tuple[int, int]]:
    """(round, server): A B, B A, A B, ... so that what drifts with time meets both alike."""
    for round_ in range(rounds):
        places = range(servers)
        yield from ((round_, server) for server in (reversed(places) if round_ % 2 else places))


def described(service: Service) -> Server:
    api: Literal["chat", "responses"] = "responses" if service.stateful else "chat"
    return Server(str(service.target), service.manner.model, api, service.manner.extra)
