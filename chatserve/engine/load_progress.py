"""What an operator sees while a model's weights are read: a bar in a terminal, else a line in the log now and then."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

log = logging.getLogger(__name__)

SHARE = 4
"""A line in the log each time another fourth is done."""


@contextmanager
def load_progress(stream: TextIO) -> Iterator[Callable[[int, int], None]]:
    """Shown on `stream` while the block runs. Yields what is told the bytes done and the bytes there are."""
    if not stream.isatty():
        yield LoggedProgress()
        return
    columns = (TextColumn("weights"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task("weights", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class LoggedProgress:
    """Called with bytes done and bytes in all, in that order."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, done: int, total: int) -> None:
        share = SHARE * done // total if total else SHARE
        if share > self._told:
            self._told = share
            log.info("weights: %.1f of %.1f GB", done / 1e9, total / 1e9)
