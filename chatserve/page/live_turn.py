"""A turn under way, as far as it has come and as far as it was rendered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from chatserve.page import growing
from chatserve.page.live_wire import BegunView, Grown
from chatserve.page.tree_wire import Times
from chatserve.server.response_asks import RESPONSE


class LiveTurn:
    """id: as the store will know it.  begun: None until what was asked has been rendered."""

    def __init__(self, turn: str) -> None:
        self.id = turn
        self.begun: BegunView | None = None
        self.news = asyncio.Event()
        self._pieces: list[str] = []
        self._tokens = 0
        self._shown_tokens = 0
        self._blocks: list[str] = []
        self._thinking: str | None = None
        self._markdown = growing.StreamingMarkdown()

    def hear(self, text: str, tokens: int) -> None:
        """Some more of the answer has come. tokens: in all."""
        self._pieces.append(text)
        self._tokens = tokens
        self.news.set()

    def reading(self) -> Callable[[], growing.Grown]:
        """Work for a thread: what has come since the last time, rendered. One at a time."""
        pieces, self._pieces = self._pieces, []
        self._shown_tokens = self._tokens
        self.news.clear()

        def read() -> growing.Grown:
            for piece in pieces:
                self._markdown.push(piece)
            return self._markdown.grown()

        return read

    def show(self, grown: growing.Grown, tokens: int | None = None) -> None:
        """From now on this is what a page is shown. tokens: of one that is read elsewhere."""
        self._blocks[grown.start :] = grown.blocks
        self._thinking = grown.thinking
        self._shown_tokens = self._shown_tokens if tokens is None else tokens

    def text(self, start: int) -> Grown:
        """What is shown, from one block on."""
        return Grown(
            id=RESPONSE + self.id,
            start=start,
            blocks=tuple(self._blocks[start:]),
            thinking_html=self._thinking,
            tokens=self._shown_tokens,
        )

    def size(self, start: int) -> int:
        """Characters of that."""
        return len(self._thinking or "") + sum(map(len, self._blocks[start:]))


class Pace:
    """How fast an answer comes. began: when it was asked for."""

    def __init__(self, began: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._began = began
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._last = (began, 0)

    def note(self, tokens: int) -> None:
        """Text has come. tokens: of the answer so far."""
        self._last = (self._clock(), tokens)
        self._first = self._first or self._last

    def times(self) -> Times:
        if self._first is None:
            return Times(ttft_ms=None, tokens_per_second=None)
        seconds, tokens = (last - first for last, first in zip(self._last, self._first, strict=True))
        rate = round(tokens / seconds, 2) if seconds > 0 and tokens > 0 else None
        return Times(ttft_ms=round(1e3 * (self._first[0] - self._began), 1), tokens_per_second=rate)
