"""Markdown that is still being written: of what was read before, only the last blocks are read again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from chatserve.page.markdown import References, Rendered, blocks_of, render
from chatserve.page.thinking import CLOSING, OPENING, held_back, may_begin

_UNDECIDED_LINES = 2
"""The last line may be unfinished, and a table is known by the second of its lines: a block that begins on one of
these may yet turn out to be a part of the one before it."""


@dataclass(frozen=True, slots=True)
class Grown:
    """What has changed since the last look. start: the first block that is new or another one; those before it stay.

    blocks: all from there on.  thinking: all of it, as it is now; None where there is none.
    """

    start: int
    blocks: tuple[str, ...]
    thinking: str | None


class StreamingMarkdown:
    """An answer as it comes. `grown` may be called as often or as seldom as somebody wants to see it."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._beginning = ""
        self._thinking: GrowingBlocks | None = None
        self._saying: GrowingBlocks | None = None

    def push(self, piece: str) -> None:
        self._pieces.append(piece)
        if self._saying is not None:
            self._saying.push(piece)
            return
        self._beginning += piece
        if self._thinking is None:
            self._begin()
        if self._thinking is not None and self._saying is None:
            self._think(self._thinking)

    def grown(self) -> Grown:
        thinking = None if self._thinking is None else self._thinking.whole() or None
        if self._saying is None:
            return Grown(0, (), thinking)
        start = self._saying.read()
        return Grown(start, self._saying.blocks(start), thinking)

    def end(self) -> Rendered:
        """All of it, rendered once: now that every link's definition is known."""
        return render("".join(self._pieces))

    def _begin(self) -> None:
        if may_begin(self._beginning):
            return
        begun = self._beginning.lstrip()
        if begun.startswith(OPENING):
            self._thinking, self._beginning = GrowingBlocks(), begun.removeprefix(OPENING)
        else:
            self._say(self._beginning)

    def _think(self, thinking: GrowingBlocks) -> None:
        """Up to the closing mark, a part of which may be all that has come of it."""
        thought, closed, said = self._beginning.partition(CLOSING)
        held = 0 if closed else held_back(thought)
        thinking.push(thought[: len(thought) - held])
        self._beginning = thought[len(thought) - held :]
        if closed:
            self._say(said)

    def _say(self, said: str) -> None:
        self._beginning = ""
        self._saying = GrowingBlocks()
        self._saying.push(said)


class GrowingBlocks:
    """The blocks of a text without an end. Those that nothing which follows can change are kept as they are."""

    def __init__(self) -> None:
        self._final: list[str] = []
        self._open: list[str] = []
        self._source = ""
        self._new: list[str] = []
        self._return = ""
        self._references: References = {}

    def push(self, piece: str) -> None:
        text = self._return + piece
        self._return = "\r" if text.endswith("\r") else ""  # the first half of a line end, perhaps
        text = text.removesuffix(self._return)
        self._new.append(text.replace("\r\n", "\n").replace("\r", "\n"))

    def blocks(self, start: int = 0) -> tuple[str, ...]:
        """From one on, as they were last read."""
        final = self._final[start:]
        return (*final, *self._open[max(0, start - len(self._final)) :])

    def whole(self) -> str:
        self.read()
        return "".join(self.blocks())

    def read(self) -> int:
        """Look at what has come; the first block that is another one than before, or the number of blocks."""
        if not self._new:
            return len(self._final) + len(self._open)
        self._source += "".join(self._new)
        self._new.clear()
        before, known = self._open, len(self._references)
        found = blocks_of(self._source, self._references)
        last = self._source.count("\n")
        decided = [place for place, block in enumerate(found) if block.start <= last - _UNDECIDED_LINES]
        first_open = decided[-1] if decided else 0
        line = found[first_open].start if decided else 0
        self._forget_references(known, line)
        if line:
            self._source = self._source.split("\n", line)[line]
        kept = len(self._final)
        self._final += [block.html for block in found[:first_open]]
        self._open = [block.html for block in found[first_open:]]
        same = next((n for n, (old, new) in enumerate(zip(before, found, strict=False)) if old != new.html), None)
        return kept + (min(len(before), len(found)) if same is None else same)

    def _forget_references(self, known: int, line: int) -> None:
        """Those that are defined from this line on will be found again."""
        for label in list(islice(reversed(self._references), len(self._references) - known)):
            if self._references[label]["map"][0] >= line:
                del self._references[label]
