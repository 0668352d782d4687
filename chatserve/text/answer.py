"""One answer's text: ids in, what the user sees out, and which ids that was."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from chatserve.text.detokenizer import Detokenizer
from chatserve.text.stops import StopWatch
from chatserve.text.tokenizer import Tokenizer


class AnswerText:
    """The visible text of one answer as its ids come. The work a token costs does not grow with the answer.

    What is visible is what `push` and `finish` have returned so far: neither text that is held back because it may
    become a stop string, nor what follows a stop string.
    """

    def __init__(
        self, tokenizer: Tokenizer, stops: Sequence[str], include_stop: bool, *, continues: bool = False
    ) -> None:
        """include_stop: the stop string itself is part of the answer.

        continues: the answer goes on in the middle of the prompt's text (a plain completion), so a leading space is
            its own.
        Raises InvalidStop.
        """
        self._tokenizer = tokenizer
        self._detokenizer = Detokenizer(tokenizer.vocabulary, 0 if continues else tokenizer.vocabulary.lead)
        self._continues = continues
        self._watch = StopWatch(stops, include_stop)
        self._shown: list[str] = []
        self._visible = 0
        self._tokens = 0
        self._finished = False
        # (tokens, characters they say): places where the ids can be cut without cutting a character, the last one that
        # is visible first. What is not visible yet is short, so these are few.
        self._cuts: deque[tuple[int, int]] = deque([(0, 0)])

    @property
    def stopped(self) -> bool:
        """Whether a stop string ended the answer."""
        return self._watch.stopped

    @property
    def text(self) -> str:
        """All visible text."""
        return "".join(self._shown)

    def push(self, ids: Iterable[int]) -> str:
        """The visible text that these ids bring; none once a stop string is complete."""
        return "".join([self._push(token) for token in ids])

    def finish(self) -> str:
        """The visible text still to come at the end: what was held back, and U+FFFD for an unfinished character."""
        if self._finished or self.stopped:
            return ""
        self._finished = True
        return self._show(self._watch.push(self._detokenizer.flush()) + self._watch.flush())

    @property
    def kept(self) -> tuple[int, tuple[int, ...]]:
        """Which ids the visible text is: the first n generated ones, whole, then others for the rest of a cut one.

        Decoding both together gives `text`. Only a vocabulary that cannot spell that rest, character by character or
        byte by byte, gives none for it: then the ids say a part of one token less than the text does.
        """
        if self._finished and not self.stopped:
            return self._tokens, ()
        tokens, characters = self._cuts[0]
        return tokens, self._rest(self.text[characters:], opens=characters == 0)

    def _push(self, token: int) -> str:
        if self.stopped or self._finished:
            return ""
        self._tokens += 1
        delta = self._watch.push(self._detokenizer.push(token))
        emitted = self._detokenizer.emitted
        if emitted > self._cuts[-1][1] and not self._detokenizer.pending:
            self._cuts.append((self._tokens, emitted))
        return self._show(delta)

    def _show(self, delta: str) -> str:
        if delta:
            self._shown.append(delta)
            self._visible += len(delta)
            while len(self._cuts) > 1 and self._cuts[1][1] <= self._visible:
                self._cuts.popleft()
        return delta

    def _rest(self, text: str, *, opens: bool) -> tuple[int, ...]:
        """Ids that say `text`. Encoding gives the model's usual ones, but may normalize; spelling is always exact."""
        if not text:
            return ()
        if opens and not self._continues:
            text = " " * self._tokenizer.vocabulary.lead + text
        vocabulary = self._tokenizer.vocabulary
        ids = self._tokenizer.encoder.encode_inside(text)
        if b"".join(map(vocabulary.said, ids)) == text.encode():
            return tuple(ids)
        return vocabulary.spell(text) or ()
