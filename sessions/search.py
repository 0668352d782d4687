"""Finding conversations by words: each has to occur, whatever its case, in the title or in what was said.

A store looks through the text as it lies there for the spellings of each word, which passes over almost everything at
the memory's speed. What is left is read and decided here.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from sessions.items import items_of
from sessions.removal import without_removed
from sessions.turns import Conversation, Message, Turn, title_of

EXCERPT: Final = 160
"""The most characters of an excerpt."""
BEFORE: Final = 50
"""Of these, the most before the word that it is shown for."""
SPEAKERS: Final = ("user", "assistant")
"""Whose words are searched."""
_SPACES: Final = re.compile(r"\s+")


class Hit(msgspec.Struct, frozen=True):
    """A conversation that was found.

    excerpt: of what was said, plain text on one line; None where the title alone has all the words.
    """

    conversation: Conversation
    excerpt: str | None


def words_of(query: str) -> tuple[str, ...]:
    """The words to look for, each once."""
    return tuple(dict.fromkeys(query.split()))


def spellings(word: str) -> tuple[str, ...]:
    """How a word is written, up to the case of A to Z: as it was typed, and all or the first of its letters in another
    case. A word in any other mixture of cases, outside of A to Z, is missed.
    """
    forms = (word, word.lower(), word.upper(), word.capitalize())
    return tuple(dict.fromkeys(map(ascii_lower, forms)))


def ascii_lower(text: str) -> str:
    return text.encode().lower().decode()


def in_json(text: str) -> str:
    """As it stands inside a string of the JSON that stores keep."""
    return msgspec.json.encode(text).decode()[1:-1]


def said(messages: Iterable[Message], answer: str | None) -> list[str]:
    """The texts of a turn that are searched."""
    texts = [message.content for message in messages if message.role in SPEAKERS]
    return texts if answer is None else [*texts, answer]


def texts_left(turns: Iterable[Turn], chain: Iterable[Turn]) -> list[str]:
    """What is searched of a conversation from which something was taken out.

    turns: all of it, those that were hidden without their words.  chain: the path to the leaf, whole.
    """
    path = [item for turn in chain for item in items_of(turn)]
    return [text for turn in without_removed(tuple(turns), path) for text in said(turn.messages, turn.answer)]


def hit(conversation: Conversation, texts: Iterable[str], words: Sequence[str]) -> Hit | None:
    """None unless every word occurs somewhere. The excerpt is of the first text that has the most of them."""
    folded = [word.casefold() for word in words]
    title = title_of(conversation).casefold()
    missing = {word for word in folded if word not in title}
    best, most = "", 0
    for text in texts:
        here = text.casefold()
        found = [word for word in folded if word in here]
        missing.difference_update(found)
        if len(found) > most:
            best, most = text, len(found)
    if missing:
        return None
    return Hit(conversation, excerpt(best, folded) if most else None)


def excerpt(text: str, folded: Sequence[str]) -> str:
    """At most EXCERPT characters around the first of the words that occurs, on one line.

    folded: the words, by `str.casefold`.
    """
    here = text.casefold()
    place = min((at for word in folded if (at := here.find(word)) >= 0), default=0)
    if len(here) != len(text):  # folding makes some letters longer
        place = bisect_left(range(len(text)), place, key=lambda end: len(text[:end].casefold()))
    start = max(0, place - BEFORE)
    stretch = _SPACES.sub(" ", text[start : start + 2 * EXCERPT])
    line = f"…{stretch.lstrip()}" if start else stretch.lstrip()
    cut = len(line) > EXCERPT or start + 2 * EXCERPT < len(text)
    return f"{line[: EXCERPT - 1].rstrip()}…" if cut else line.rstrip()
