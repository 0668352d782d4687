"""Numbers that several processes count and any of them can add up: a table in shared memory, one row a process.

A row has one writer, and eight bytes are written at once, so there is no lock. Whoever takes the place of a process
that died goes on in its row: a counter never goes back.
"""

from __future__ import annotations

import mmap
import os

ROW = 1024
"""Numbers in a row; a row is a whole number of pages."""
NUMBER_BYTES = 8


class Tally:
    """rows: how many processes count.  row: which of them this is.  file: shared memory from `share`; None: it is not
    shared.
    """

    def __init__(self, *, rows: int = 1, row: int = 0, file: int | None = None) -> None:
        assert 0 <= row < rows
        self._table = memoryview(mmap.mmap(-1 if file is None else file, rows * ROW * NUMBER_BYTES)).cast("d")
        self._rows = rows
        self.own = self._table[row * ROW : (row + 1) * ROW]
        self._used = 0

    @staticmethod
    def share(rows: int) -> int:
        """A file descriptor of memory for so many processes, all zero; closed by whoever owns it."""
        file = os.memfd_create("chatserve-tally")
        os.ftruncate(file, rows * ROW * NUMBER_BYTES)
        return file

    def place(self, count: int) -> int:
        """The index of the first of `count` numbers for one measure. Every process must ask for the same, in the same
        order.
        """
        first = self._used
        self._used += count
        assert self._used <= ROW, "more numbers than a row holds"
        return first

    def sums(self, first: int, count: int) -> list[float]:
        """Numbers of all processes, added up."""
        return [sum(self._table[place::ROW]) for place in range(first, first + count)]
