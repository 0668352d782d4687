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
    """For one prompt. Tokens are shown of this prompt, of its conversation, and of what the same tenant has recorded.

    history: the ids that were stored of the conversation before it; empty where there is none.
    """

    def __init__(self, tokenizer: Tokenizer, prompt: array[int], history: array[int]) -> None:
        self._tokenizer = tokenizer
        self._prompt = prompt
        self._history = history

    def __call__(self, reuse: Reuse) -> ReuseDetails:
        stopped = None if reuse.stop is None else self._stopped(reuse.stop)
        return ReuseDetails(reuse.taken_over, reuse.mapped, reuse.copied, reuse.promoted, stopped)

    def _stopped(self, stop: ReuseStop) -> Stopped:
        why, found = self._reason(stop)
        return Stopped(stop.at, why, self._token(found), self._token(stop.asked))

    def _reason(self, stop: ReuseStop) -> tuple[StopReason, int | None]:
        at, history = stop.at, self._history
        if stop.why not in _OUTSIDE:
            return stop.why, stop.found
        if at < len(history) and self._prompt[at] != history[at] and self._prompt[:at] == history[:at]:
            return "template_rewrote_history", history[at]
        if at < len(history) - 1:  # the last token of an answer is never computed
            return "nothing_recorded", None  # of this conversation; others that begin alike have gone another way
        return stop.why, stop.found

    def _token(self, token: int | None) -> Token | None:
        return None if token is None else Token(token, self._text(token))

    def _text(self, token: int) -> str:
        controls = self._tokenizer.encoder.controls
        name = next((name for name, number in controls.items() if number == token), None)
        return self._tokenizer.vocabulary.said(token).decode("utf-8", "replace") if name is None else name
