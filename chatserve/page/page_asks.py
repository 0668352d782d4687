"""What the page asks of its conversations, every wrong value refused by name."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Final

from chatserve.server.errors import BadRequest, shown
from chatserve.server.fields import Fields
from chatserve.server.paging import read_limit
from chatserve.server.response_asks import CONVERSATION
from sessions.search import words_of
from sessions.turns import TITLE

USUAL: Final = 40
LONGEST_TITLE: Final = 200
LONGEST_QUERY: Final = 200
MOST_WORDS: Final = 8
_ID_LENGTH: Final = 128


@dataclass(frozen=True, slots=True)
class ListAsk:
    """after: the id, as the store knows it, that the list goes on after.  words: those to look for; none: no search."""

    words: tuple[str, ...]
    after: str | None
    limit: int


def read_list(query: Fields) -> ListAsk:
    """From a request's query, where every value is a string. Raises BadRequest."""
    asked = query.text("query", longest=LONGEST_QUERY) or ""
    if any(_controls(letter) and not letter.isspace() for letter in asked):
        raise BadRequest(f"query must be text without control characters, not {shown(asked)}.", param="query")
    words = words_of(asked)
    if len(words) > MOST_WORDS:
        raise BadRequest(f"query has {len(words)} words; the limit is {MOST_WORDS}: {shown(asked)}.", param="query")
    after = query.text("after", longest=_ID_LENGTH)
    return ListAsk(
        words, after.removeprefix(CONVERSATION) if after else None, read_limit(query.values.get("limit"), USUAL)
    )


def read_title(fields: Fields, *, needed: bool = False) -> str:
    """On one line; empty where there is none. Raises BadRequest, also for one that is needed and is not there."""
    title = fields.text(TITLE, longest=LONGEST_TITLE)
    if title is None and needed:
        raise BadRequest(f"{TITLE} must be a string, not null.", param=TITLE, code="invalid_type")
    return one_line(title or "")


def one_line(text: str) -> str:
    """Its control characters and stretches of space as single spaces."""
    return " ".join("".join(" " if _controls(letter) else letter for letter in text).split())


def _controls(letter: str) -> bool:
    """Joiners are none: some scripts are not written without them."""
    return unicodedata.category(letter) in ("Cc", "Zl", "Zp")
