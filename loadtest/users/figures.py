"""What turns say, where Locust shows it; and all of them together, in a report of our own."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

from typing import Any

import msgspec
from locust.env import Environment
from locust.event import EventHook
from locust.runners import WorkerRunner

from chatserve.bench.outcome import Outcome
from chatserve.bench.record import relative
from chatserve.bench.summary import LATENCIES, LATENCY_NAMES

KIND = "measure"
"""In Locust's column for the method: these are no requests."""
SENT_AS = "turns"


class Figures:
    """All turns of a run, their moments in seconds from its beginning on. Of several processes each tells the first
    what it has, and that keeps them all.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._untold: list[Outcome] = []
        self._began = 0.0
        self.turns: list[Outcome] = []

    def listen(self, turn_ended: EventHook) -> None:
        """Have Locust's events call what is theirs."""
        events = self._environment.events
        turn_ended.add_listener(self._note)
        if isinstance(self._environment.runner, WorkerRunner):
            events.report_to_master.add_listener(self._tell)
        events.worker_report.add_listener(self._hear)

    def begin(self, now: float) -> None:
        """A run begins; each process has a clock of its own."""
        self._untold, self.turns, self._began = [], [], now

    def _note(self, outcome: Outcome, **_: Any) -> None:
        """One turn more. Its times go into Locust's own tables without counting as requests."""
        kept = relative(outcome, self._began)
        self.turns.append(kept)
        if isinstance(self._environment.runner, WorkerRunner):
            self._untold.append(kept)
        if outcome.whole:
            for name, of in LATENCIES.items():
                entry = self._environment.stats.get(LATENCY_NAMES[name], KIND)
                for seconds in of(outcome):
                    entry.log(1e3 * seconds, 0)  # type: ignore[arg-type]  # Locust itself logs parts of a ms

    def _tell(self, client_id: str, data: dict[str, Any]) -> None:  # noqa: ARG002
        data[SENT_AS], self._untold = msgspec.to_builtins(self._untold), []

    def _hear(self, client_id: str, data: dict[str, Any]) -> None:  # noqa: ARG002
        self.turns += msgspec.convert(data.get(SENT_AS, []), list[Outcome])
