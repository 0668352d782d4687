"""A Locust run from its parts: users that do as they were told, a shape, and what came of it."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from locust.env import Environment
from locust.runners import WorkerRunner

from chatserve.bench.slo import BadSlo
from chatserve.bench.summary import summary
from chatserve.bench.texts import BadConversations
from loadtest.kept import Kept
from loadtest.summary_table import kept as rounded
from loadtest.summary_table import shown
from loadtest.users.chat_user import ChatUser
from loadtest.users.figures import Figures
from loadtest.users.knobs import BadKnob, Knobs, seconds
from loadtest.users.named_shape import NamedShape
from loadtest.users.shapes import SHAPES

UNUSABLE = (BadKnob, BadSlo, BadConversations)
APART = 1_000_000
"""The conversations of each of several processes have numbers of their own."""


def prepare(environment: Environment, **_: Any) -> None:
    """Check what was asked for before anybody waits for it, and listen to what Locust says."""
    run = Run(environment)
    run.tune()
    events = environment.events
    events.test_start.add_listener(run.begin)
    events.quitting.add_listener(run.end)


class Run:
    """One or, from Locust's page, several runs after another."""

    def __init__(self, environment: Environment) -> None:
        assert environment.parsed_options is not None, "Locust has read its arguments by now"
        self._options = environment.parsed_options
        self._environment = environment
        self._figures = Figures(environment)
        self._figures.listen(ChatUser.turn_ended)

    def tune(self) -> None:
        """Read the arguments, which the page may have changed since the last run. Exits where one cannot be used."""
        try:
            ChatUser.knobs = Knobs.read(self._options)
            self._environment.shape_class = self._shape()
        except UNUSABLE as error:
            sys.exit(f"locust: {error}")

    def begin(self, **_: Any) -> None:
        self.tune()
        worker = getattr(self._environment.runner, "worker_index", 0)
        ChatUser.began, ChatUser.numbers = time.perf_counter(), count(max(0, worker) * APART)
        self._figures.clear()

    def end(self, **_: Any) -> None:
        """Keep what was measured."""
        if isinstance(self._environment.runner, WorkerRunner):
            return
        found = summary(self._figures.turns, ChatUser.knobs.slo)
        print(shown(found), flush=True)
        if self._options.figures:
            kept = Kept(Path(self._options.figures))
            kept.put("workload", msgspec.to_builtins(ChatUser.knobs.held.workload))
            kept.put("summary", rounded(found))
            kept.put("outcomes", msgspec.to_builtins(self._figures.turns))

    def _shape(self) -> NamedShape | None:
        """Raises BadKnob."""
        options = self._options
        if not options.shape:
            return None
        if options.shape not in SHAPES:
            raise BadKnob(f"--shape {options.shape!r} is none; there are {', '.join(SHAPES)}")
        if not options.run_time:
            raise BadKnob(f"--shape {options.shape} needs --run-time: how long it is")
        shape = NamedShape(options.shape, options.num_users or 1, seconds("--run-time", options.run_time))
        shape.runner = self._environment.runner
        return shape
