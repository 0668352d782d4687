"""What an operator sees while an engine starts: a bar in a terminal, else a line in the log now and then."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

log = logging.getLogger(__name__)

SHARE = 4
"""A line in the log each time another fourth is done."""

Told = Callable[[int, int], None]
"""How much is done, of how much."""


@contextmanager
def load_progress(stream: TextIO) -> Iterator[Told]:
    """Shown on `stream` while the block reads weights. Yields what is told bytes."""
    columns = (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with shown(stream, "weights", columns, lambda done, total: f"{done / 1e9:.1f} of {total / 1e9:.1f} GB") as told:
        yield told


@contextmanager
def capture_progress(stream: TextIO) -> Iterator[Told]:
    """Shown on `stream` while the block compiles and captures steps. Yields what is told how far it is."""
    columns = (MofNCompleteColumn(), TimeRemainingColumn())
    with shown(stream, "compiled and captured", columns, lambda done, total: f"{done} of {total}") as told:
        yield told


@contextmanager
def shown(
    stream: TextIO, what: str, columns: tuple[ProgressColumn, ...], amount: Callable[[int, int], str]
) -> Iterator[Told]:
    """A bar that goes away when the block ends, or lines in the log."""
    if not stream.isatty():
        yield LoggedProgress(what, amount)
        return
    with Progress(TextColumn(what), BarColumn(), *columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(what, total=None, visible=False)  # until there is something to tell
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)


class LoggedProgress:
    """Called with what is done and what there is, in that order."""

    def __init__(self, what: str, amount: Callable[[int, int], str]) -> None:
        self._what = what
        self._amount = amount
        self._told = 0

    def __call__(self, done: int, total: int) -> None:
        share = SHARE * done // total if total else 0
        if share > self._told:
            self._told = share
            log.info("%s: %s", self._what, self._amount(done, total))
