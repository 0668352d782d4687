"""One HTTP response as it comes in, piece by piece."""

from __future__ import annotations

import httptools

from chatserve.bench.dialects import BadAnswer
from chatserve.bench.measuring import Reading, check_status
from chatserve.bench.outcome import CUT, NONSENSE


class Exchange:
    """Fed with what a connection brings.

    A streamed body is given to `reading` as it comes, and its reader leaves after `leave_after` events with text.
    Without a reading, and of any status but 200, the body is kept.
    status: 0 before it is known.  left: the reader has left.  settled: there is nothing more to wait for.
    reusable: the connection can carry another request.
    """

    def __init__(self, reading: Reading | None = None, leave_after: int | None = None) -> None:
        self._reading = reading
        self._leave_after = leave_after
        self._parser = httptools.HttpResponseParser(self)
        self._bounded = False
        self._kept: list[bytes] = []
        self._now = 0.0
        self._bad: BadAnswer | None = None
        self.status = 0
        self.left = False
        self.settled = False
        self.reusable = False

    @property
    def body(self) -> bytes:
        """What was kept of it."""
        return b"".join(self._kept)

    @property
    def over(self) -> bool:
        """Whether the answer has come to its end mark."""
        return self._reading is not None and self._reading.over

    def check(self) -> None:
        """Raises BadAnswer for a response that failed, or whose stream did."""
        if self._bad is not None:
            raise self._bad
        check_status(self.status, self.body)
        if self._reading is not None and not self.left:
            self._reading.check()

    def feed(self, data: bytes, now: float) -> None:
        """Take bytes that came at `now`."""
        self._now = now
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(BadAnswer(NONSENSE, f"this is no HTTP response ({error}): {data[:80]!r}"))

    def closed(self, now: float) -> None:
        """The connection has ended, which is the end of a body that did not say how long it is."""
        whole = self.status != 0 and not self._bounded
        try:
            if self.status == 0:
                raise BadAnswer(CUT, "the connection was closed before any answer")
            if self._reading is not None and self.status == 200 and not self.left:
                self._reading.close(now, whole=whole)
            elif not whole and not self.left:
                raise BadAnswer(CUT, "the connection was closed inside an answer")
        except BadAnswer as error:
            self._fail(error)
        self.settled = True

    def on_header(self, name: bytes, _value: bytes) -> None:
        self._bounded = self._bounded or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        if self._bad is not None or self.left:
            return
        if self._reading is None or self.status != 200:
            self._kept.append(data)
            return
        try:
            self._reading.feed(data, self._now)
        except BadAnswer as error:
            self._fail(error)
            return
        if self._leave_after is not None and self._reading.events >= self._leave_after and not self.over:
            self.left = True
            self.settled = True

    def on_message_complete(self) -> None:
        self.reusable = self._bad is None and bool(self._parser.should_keep_alive())
        if self._reading is not None and self.status == 200 and not self.left and self._bad is None:
            try:
                self._reading.close(self._now, whole=True)
            except BadAnswer as error:
                self._fail(error)
        self.settled = True

    def _fail(self, error: BadAnswer) -> None:
        self._bad = self._bad or error
        self.settled = True
