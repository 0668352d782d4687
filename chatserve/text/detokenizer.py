"""Ids to text as they come, whole characters only."""

from __future__ import annotations

import codecs

from chatserve.text.vocabulary import Vocabulary


class Detokenizer:
    """The text of one answer, token by token. What is kept back is at most three bytes: the part of one character.

    emitted: characters given out so far.
    """

    def __init__(self, vocabulary: Vocabulary, lead: int) -> None:
        """lead: leading spaces not to be said: `vocabulary.lead` where a text starts, 0 where it goes on."""
        self._vocabulary = vocabulary
        self._lead = lead
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.emitted = 0

    @property
    def pending(self) -> bool:
        """Whether the tokens so far end inside a character."""
        return bool(self._decoder.getstate()[0])

    def push(self, token: int) -> str:
        """The characters that this token completes; often none or several."""
        return self._emit(self._decoder.decode(self._vocabulary.said(token)))

    def flush(self) -> str:
        """At the end: U+FFFD if the tokens really end inside a character, else nothing."""
        return self._emit(self._decoder.decode(b"", final=True))

    def _emit(self, text: str) -> str:
        if self._lead and text:
            said = text
            while self._lead and said.startswith(" "):
                said = said[1:]
                self._lead -= 1
            self._lead = self._lead if not said else 0
            text = said
        self.emitted += len(text)
        return text
