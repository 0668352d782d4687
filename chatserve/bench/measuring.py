"""One streamed answer, from the bytes of its body and the times they came at: no sockets here, no clock of its own."""

from __future__ import annotations

from dataclasses import dataclass

from chatserve.bench.dialects import BadAnswer, Dialect, shown
from chatserve.bench.events import EventSplitter
from chatserve.bench.outcome import CUT, LENGTH, NO_END, NO_USAGE, Failure, Outcome, Usage, of_status


@dataclass(frozen=True, slots=True)
class Asked:
    """What an outcome says of its turn before anything came.

    due, open_loop: see Outcome.begin.  exact: the tokens the answer must have; None where it may end when it likes.
    """

    conversation: int
    turn: int
    due: float
    open_loop: bool = False
    exact: int | None = None
    branch: bool = False
    priority: int = 0
    warm: bool = False


class Reading:
    """Fed with a body as it comes; then asked what it was.

    text: so far.  response_id: where the API gives one.  over: the end mark has come; what follows is not read.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._events = EventSplitter()
        self._texts: list[str] = []
        self._gaps: list[float] = []
        self._opened: float | None = None
        self._first: float | None = None
        self._last = 0.0
        self._ended: float | None = None
        self._usage: Usage | None = None
        self.response_id: str | None = None

    @property
    def over(self) -> bool:
        return self._ended is not None

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def events(self) -> int:
        """How many had text."""
        return len(self._texts)

    def feed(self, data: bytes, now: float) -> None:
        """Take bytes that came at `now`. Raises BadAnswer for an error event and for what is no event of the API."""
        for name, event in self._events.feed(data):
            self._take(name, event, now)

    def close(self, now: float, *, whole: bool) -> None:
        """The body is at its end: its own (`whole`), or the connection's. Raises BadAnswer if the answer is not."""
        if not whole and not self.over:
            raise BadAnswer(CUT, f"the connection was closed after {self.events} events with text")
        for name, event in self._events.close():
            self._take(name, event, now)
        self.check()

    def check(self) -> None:
        """Raises BadAnswer for an answer that did not come to its end, or hides its usage."""
        if not self.over:
            raise BadAnswer(NO_END, f"the stream ended without {self._dialect.end_mark}")
        if self._usage is None:
            raise BadAnswer(NO_USAGE, "the stream had no usage")

    def _take(self, name: bytes, data: bytes, now: float) -> None:
        if self.over:
            return
        if self._opened is None:
            self._opened = now
        meaning = self._dialect.read(name, data)
        if meaning.text:
            self._note_text(meaning.text, now)
        if meaning.usage is not None:
            self._usage = meaning.usage
        if meaning.id is not None:
            self.response_id = meaning.id
        if meaning.end:
            self._ended = now

    def _note_text(self, text: str, now: float) -> None:
        if self._first is None:
            self._first = now
        else:
            self._gaps.append(now - self._last)
        self._last = now
        self._texts.append(text)

    def outcome(
        self,
        asked: Asked,
        sent: float | None,
        now: float,
        *,
        failure: Failure | None = None,
        cancelled: bool = False,
    ) -> Outcome:
        """All that is known of the turn.  now: when it ended, for one without its end mark."""
        usage = None if failure or cancelled else self._usage
        if usage is not None and asked.exact is not None and usage.completion != asked.exact:
            failure = Failure(LENGTH, f"{usage.completion} tokens came instead of {asked.exact}")
        return Outcome(
            conversation=asked.conversation,
            turn=asked.turn,
            due=asked.due,
            begin=asked.due if asked.open_loop or sent is None else sent,
            sent=sent,
            opened=self._opened,
            first=self._first,
            ended=now if self._ended is None else self._ended,
            gaps=tuple(self._gaps),
            usage=usage,
            failure=failure,
            cancelled=cancelled,
            branch=asked.branch,
            priority=asked.priority,
            warm=asked.warm,
        )


def check_status(status: int, body: bytes) -> None:
    """Raises BadAnswer for any but 200, with what the server says of it."""
    if status != 200:
        raise BadAnswer(of_status(status), shown(body) or "without a word")
