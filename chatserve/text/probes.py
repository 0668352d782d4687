"""Does a template only ever append? Found out by trying, when it is loaded.

A conversation may go on from its stored ids only if rendering it anew would give the same beginning. Templates that
drop thinking text from earlier answers, or move the system text to the newest message, do not keep to that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from chatserve.text.errors import TemplateRefused
from chatserve.text.messages import Message

Render = Callable[[Sequence[Message]], str]

SYSTEM: Final = Message("system", "Speak briefly.")
ANSWERS: Final = (
    "Good morning.",
    "  indented,\n\nwith a last line\n",
    "<think>\nlet me see\n</think>\n\nIt is four.",
    "<think>\n\n</think>\n\nYes.",
)


def appends_only(whole: Render, following: Render) -> bool:
    """Whether `whole(old + answer + new)` is always `whole(old)`, then the answer, then `following(new)`.

    White space around an earlier answer may differ: stored ids hold what the model wrote, which is no less true.
    False as well when the template accepts none of the conversations tried.
    """
    verdicts = [
        verdict
        for opening in ([], [SYSTEM])
        for answer in ANSWERS
        for verdict in _conversation(whole, following, opening, answer)
    ]
    return bool(verdicts) and all(verdicts)


def _conversation(whole: Render, following: Render, opening: Sequence[Message], answer: str) -> list[bool]:
    """Several turns, each checked; from the first that the template refuses on, nothing is."""
    verdicts: list[bool] = []
    messages = [*opening, Message("user", "Hello")]
    news: list[list[Message]] = [
        [Message("user", " and now? ")],
        [Message("user", "first"), Message("user", "second")],
        [Message("tool", "42")],
        [Message("system", "Be kind."), Message("user", "Go on.")],
    ]
    for new in news:
        old, later = messages, [*messages, Message("assistant", answer), *new]
        try:
            verdicts.append(_is_appended(whole(old), answer, following(new), whole(later)))
        except TemplateRefused:
            continue
        if new[-1].role == "user":
            messages = later
    return verdicts


def _is_appended(before: str, answer: str, tail: str, after: str) -> bool:
    before = before.rstrip()
    said = after.removeprefix(before).removesuffix(tail)
    return after == before + said + tail and said.strip() == answer.strip()
