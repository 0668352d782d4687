"""Why an answer's prompt was not reused further, in its user's own words.

What the engine says, that tokens differ or that a record ends, is seen here with the conversation beside it: the server
knows which ids were stored, and whether the chat template has rewritten them.
"""

from __future__ import annotations

from array import array
from typing import Final

from chatserve.engine.messages import Reuse, ReuseStop
from chatserve.server.wire import ReuseDetails, Stopped, StopReason, Token
from chatserve.text.tokenizer import Tokenizer

_OUTSIDE: Final = ("record_ends", "differs", "nothing_recorded")
"""Reasons that say only how the prompt and what is recorded part."""


class Explain:
    """For one prompt.

    history: the ids that were stored of the conversation before it; empty where there is none.
    shared: other callers' prefixes are reused too. What those go on with is nobody's business: only tokens of this
        prompt and of its own conversation are shown then, else also those of other conversations of the same tenant.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: array[int], history: array[int], *, shared: bool) -> None:
        self._tokenizer = tokenizer
        self._prompt = prompt
        self._history = history
        self._shared = shared

    def reuse(self, reuse: Reuse) -> ReuseDetails:
        return ReuseDetails(reuse.taken_over, reuse.mapped, reuse.copied, reuse.promoted, self.stop(reuse.stop))

    def stop(self, stop: ReuseStop | None) -> Stopped | None:
        if stop is None:
            return None
        why, found = self._reason(stop)
        return Stopped(stop.at, why, self._token(found), self._token(stop.asked))

    def _reason(self, stop: ReuseStop) -> tuple[StopReason, int | None]:
        at, history = stop.at, self._history
        found = None if self._shared else stop.found
        if stop.why not in _OUTSIDE:
            return stop.why, found
        if at < len(history) and self._prompt[at] != history[at] and self._prompt[:at] == history[:at]:
            return "template_rewrote_history", history[at]
        if at < len(history) - 1:  # the last token of an answer is never computed
            return "nothing_recorded", None  # of this conversation; others that begin alike have gone another way
        return stop.why, found

    def _token(self, token: int | None) -> Token | None:
        return None if token is None else Token(token, self._text(token))

    def _text(self, token: int) -> str:
        controls = self._tokenizer.encoder.controls
        name = next((name for name, number in controls.items() if number == token), None)
        return self._tokenizer.vocabulary.said(token).decode("utf-8", "replace") if name is None else name
