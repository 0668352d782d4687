"""What an operator sees while weights are read."""

from __future__ import annotations

import io
import logging

from chatserve.engine.load_progress import capture_progress, load_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_log_gets_few_lines(caplog):
    caplog.set_level(logging.INFO)
    with load_progress(io.StringIO()) as progress:
        for done in range(0, 1001):
            progress(done * 10**7, 10**10)
    assert [record.message for record in caplog.records] == [
        "weights: 2.5 of 10.0 GB",
        "weights: 5.0 of 10.0 GB",
        "weights: 7.5 of 10.0 GB",
        "weights: 10.0 of 10.0 GB",
    ]


def test_a_terminal_gets_a_bar():
    terminal = Terminal()
    with load_progress(terminal) as progress:
        progress(0, 2_000_000)
        progress(2_000_000, 2_000_000)
    assert "2.0/2.0 MB" in terminal.getvalue()


def test_captured_steps_are_counted(caplog):
    caplog.set_level(logging.INFO)
    with capture_progress(io.StringIO()) as progress:
        for done in range(1, 9):
            progress(done, 8)
    assert [record.message for record in caplog.records] == [
        f"compiled and captured: {done} of 8" for done in (2, 4, 6, 8)
    ]


def test_nothing_to_read_is_no_fault():
    with load_progress(io.StringIO()) as progress:
        progress(0, 0)
