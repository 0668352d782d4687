"""What callers have left of their minute: token buckets in memory that all processes of a server share.

A bucket holds a minute's worth and fills evenly. Reading and writing one happens under a lock of the system's, which a
process that dies gives up, so a limit holds over all processes together.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

from chatserve.server.visit import Caller

ROWS: Final = 4096
"""Callers that are remembered; beyond them, the one that was away longest begins anew, with full buckets."""
_WIDTH: Final = 8
_NUMBER_BYTES: Final = 8
_WHO, _REQUESTS, _TOKENS, _SEEN = range(4)
"""What stands in a row: a digest of the caller's name, both levels, and when they were right."""
_MINUTE: Final = 60.0


@dataclass(frozen=True, slots=True)
class Wait:
    """seconds: until there is some of `what` again."""

    what: Literal["requests", "tokens"]
    limit: int
    seconds: float


class Meters:
    """file: shared memory from `share`, kept by whoever opened it.  clock: seconds, the same in all processes."""

    def __init__(self, file: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        table = memoryview(mmap.mmap(file, ROWS * _WIDTH * _NUMBER_BYTES))
        self._file = file
        self._clock = clock
        self._numbers = table.cast("d")
        self._digests = table.cast("q")

    @staticmethod
    def share() -> int:
        """A file descriptor of memory in which nobody has used anything; closed by whoever owns it."""
        file = os.memfd_create("chatserve-meters")
        os.ftruncate(file, ROWS * _WIDTH * _NUMBER_BYTES)
        return file

    def enter(self, caller: Caller) -> Wait | None:
        """Take one request; or what the caller must wait for, nothing being taken then."""
        rates = caller.rates
        with self._row(caller) as row:
            requests, tokens = self._numbers[row + _REQUESTS], self._numbers[row + _TOKENS]
            if rates.requests is not None and requests < 1:
                return Wait("requests", rates.requests, (1 - requests) * _MINUTE / rates.requests)
            if rates.tokens is not None and tokens < 1:
                return Wait("tokens", rates.tokens, (1 - tokens) * _MINUTE / rates.tokens)
            if rates.requests is not None:
                self._numbers[row + _REQUESTS] = requests - 1
        return None

    def charge(self, caller: Caller, tokens: int) -> None:
        """Note what a request has used, which nobody knew before it ended: the bucket may owe some for a while."""
        if caller.rates.tokens is not None and tokens:
            with self._row(caller) as row:
                self._numbers[row + _TOKENS] -= tokens

    @contextmanager
    def _row(self, caller: Caller) -> Iterator[int]:
        """The place of the caller's row, its levels right as of now, nobody else at the table."""
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            row = self._find(caller.name)
            now = self._clock()
            passed = max(0.0, now - self._numbers[row + _SEEN])
            for place, limit in ((_REQUESTS, caller.rates.requests), (_TOKENS, caller.rates.tokens)):
                if limit is not None:
                    filled = self._numbers[row + place] + passed * limit / _MINUTE
                    self._numbers[row + place] = min(float(limit), filled)
            self._numbers[row + _SEEN] = now
            yield row
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def _find(self, name: str) -> int:
        digest = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True) or 1
        for probe in range(ROWS):
            row = (digest + probe) % ROWS * _WIDTH
            if self._digests[row + _WHO] == digest:
                return row
            if not self._digests[row + _WHO]:
                return self._take(row, digest)
        return self._take(min(range(0, ROWS * _WIDTH, _WIDTH), key=lambda row: self._numbers[row + _SEEN]), digest)

    def _take(self, row: int, digest: int) -> int:
        """A row for someone new: more than full, to be cut to what the limits allow."""
        self._digests[row + _WHO] = digest
        self._numbers[row + _REQUESTS] = self._numbers[row + _TOKENS] = float("inf")
        self._numbers[row + _SEEN] = self._clock()
        return row
