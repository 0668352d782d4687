"""A Locust run from its parts: users that do as they were told, a shape, and what came of it."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import sys
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from locust.env import Environment
from locust.runners import WorkerRunner

from chatserve.bench.connection import clock
from chatserve.bench.crew import Performance
from chatserve.bench.curves import figures
from chatserve.bench.lines import tables
from chatserve.bench.load import Closed, Limits
from chatserve.bench.notation import BadNotation
from chatserve.bench.record import Server, Terms, now, record, run_record
from chatserve.bench.slo import BadSlo
from chatserve.bench.texts import BadConversations
from loadtest.markdown import table as markdown
from loadtest.users.chat_user import ChatUser
from loadtest.users.figures import Figures
from loadtest.users.knobs import Knobs, number
from loadtest.users.named_shape import NamedShape
from loadtest.users.shapes import SHAPES

PLOTS = "chatserve.bench.plots"
"""Asked for only where it is wanted: matplotlib takes a while to load."""
UNUSABLE = (BadNotation, BadSlo, BadConversations)
APART = 1_000_000
"""The conversations of each of several processes have numbers of their own."""


def prepare(environment: Environment, **_: Any) -> None:
    """Check what was asked for before anybody waits for it, and listen to what Locust says."""
    run = Run(environment)
    try:
        run.tune()
    except UNUSABLE as error:
        sys.exit(f"locust: {error}")
    events = environment.events
    events.test_start.add_listener(run.begin)
    events.quitting.add_listener(run.end)


class Run:
    """One or, from Locust's page, several runs after another."""

    def __init__(self, environment: Environment) -> None:
        assert environment.parsed_options is not None, "Locust has read its arguments by now"
        self._options = environment.parsed_options
        self._environment = environment
        self._began = now()
        self._figures = Figures(environment)
        self._figures.listen(ChatUser.turn_ended)

    def tune(self) -> None:
        """Read the arguments. Raises UNUSABLE."""
        ChatUser.knobs = Knobs.read(self._options)
        self._environment.shape_class = self._shape()

    def begin(self, **_: Any) -> None:
        """Locust's page may have changed them since the last run."""
        try:
            self.tune()
            ChatUser.refusal = ""
        except UNUSABLE as error:
            ChatUser.refusal = str(error)
        worker = getattr(self._environment.runner, "worker_index", 0)
        ChatUser.began, ChatUser.numbers = clock(), count(max(0, worker) * APART)
        self._began = now()
        self._figures.begin(ChatUser.began)

    def end(self, **_: Any) -> None:
        """Show and keep what was measured, as `chatserve bench` does."""
        if isinstance(self._environment.runner, WorkerRunner):
            return
        slo, seed = ChatUser.knobs.slo, ChatUser.knobs.held.workload.seed
        done = Performance(outcomes=self._figures.turns)
        found = record(
            self._began, self._terms(), [self._server()], [run_record(done, slo, server=0, round_=0, seed=seed)]
        )
        for table in tables(found):
            print(f"{table.title}\n{markdown([dict(zip(table.columns, row, strict=True)) for row in table.rows])}")
        if self._options.figures:
            Path(self._options.figures).write_bytes(msgspec.json.encode(found))
        if self._options.plots:
            import_module(PLOTS).draw_all(figures(found), Path(self._options.plots))

    def _server(self) -> Server:
        knobs = ChatUser.knobs
        return Server(self._options.host or "", knobs.model, "responses" if knobs.stateful else "chat")

    def _terms(self) -> Terms:
        """The most users there were stand for the load, whatever its shape."""
        knobs, options = ChatUser.knobs, self._options
        return Terms(
            workload=knobs.held.workload,
            texts=options.conversations or "generated",
            load=Closed(options.num_users or 1),
            limits=Limits(None, float(options.run_time) if options.run_time else None),
            slo=knobs.slo,
            fixed_length=knobs.fixed,
            processes=1,
        )

    def _shape(self) -> NamedShape | None:
        """Raises BadNotation."""
        options = self._options
        if not options.shape:
            return None
        if options.shape not in SHAPES:
            raise BadNotation(f"--shape {options.shape!r} is none; there are {', '.join(SHAPES)}")
        if not options.run_time:
            raise BadNotation(f"--shape {options.shape} needs --run-time: how long it is")
        shape = NamedShape(options.shape, options.num_users or 1, number("--run-time", str(options.run_time)))
        shape.runner = self._environment.runner
        return shape
