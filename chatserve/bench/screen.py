"""A benchmark in a terminal: how far it is, and what it found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from chatserve.bench import lines
from chatserve.bench.connection import clock
from chatserve.bench.crew import Performance
from chatserve.bench.definitions import printed
from chatserve.bench.load import Limits
from chatserve.bench.record import Record
from chatserve.bench.statistics import percentile

LATELY: Final = 200
"""Turns that the progress line speaks of."""


class Watch:
    """A bar for one load; on something that is no terminal, nothing."""

    def __init__(self, progress: Progress, task: TaskID, limits: Limits, turns: int) -> None:
        """turns: in a conversation, about."""
        self._progress = progress
        self._task = task
        self._limits = limits
        self._turns = turns

    def show(self, done: Performance) -> None:
        """Called again and again: looks at the latest turns only."""
        lately = done.outcomes[-LATELY:]
        ttfts = [turn.ttft for turn in lately if turn.whole and turn.ttft is not None]
        failed = sum(turn.failure is not None for turn in lately)
        told = [f"{len(done.outcomes):,} turns"]
        told += [f"TTFT p50 {lines.milliseconds(1e3 * (percentile(ttfts, 50) or 0.0))} ms"] if ttfts else []
        told += [f"[red]{failed} of the last {len(lately)} failed[/]"] if failed else []
        self._progress.update(self._task, completed=self._share(done), told=" · ".join(told))

    def _share(self, done: Performance) -> float:
        """Of all there is to do; the nearer limit counts."""
        shares = [0.0]
        if self._limits.conversations:
            shares.append(len(done.outcomes) / (self._limits.conversations * self._turns))
        if self._limits.seconds:
            shares.append((clock() - done.begin) / self._limits.seconds)
        return min(1.0, max(shares))


@contextmanager
def watching(console: Console, name: str, limits: Limits, turns: int) -> Iterator[Watch]:
    """Until the block ends."""
    columns = (TextColumn("{task.description}"), BarColumn(30), TimeElapsedColumn(), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Watch(progress, progress.add_task(escape(name), total=1.0, told=""), limits, turns)


def show(record: Record, console: Console) -> None:
    """Tables, remarks, and what every number means."""
    for line in lines.terms_lines(record):
        console.print(escape(line), highlight=False)
    for table in lines.tables(record):
        console.print()
        console.print(_rich(table))
    console.print()
    console.print(escape(lines.client_line(record.runs)), highlight=False)
    for remark in lines.remarks(record):
        console.print(f"[bold]note:[/] {escape(remark)}", highlight=False)
    console.print()
    console.print(escape(printed(min(console.width, 110))), style="dim", highlight=False)


def _rich(table: lines.Table) -> RichTable:
    drawn = RichTable(title=escape(table.title), title_justify="left", title_style="bold")
    for place, name in enumerate(table.columns):
        drawn.add_column(escape(name), justify="left" if place == 0 else "right")
    for row in table.rows:
        drawn.add_row(*map(escape, row))
    return drawn
