"""Which stretch of a list a request asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from chatserve.server.errors import BadRequest, Missing, shown
from chatserve.server.fields import Fields
from chatserve.server.item_wire import MessageItem

MOST: Final = 100
USUAL: Final = 20
_ID_LENGTH: Final = 128


@dataclass(frozen=True, slots=True)
class Stretch:
    """Up to `limit` values, beginning after the one with the id `after` (None: at the beginning)."""

    after: str | None
    limit: int
    newest_first: bool


def read_stretch(query: Fields) -> Stretch:
    """From a request's query, where every value is a string. Raises BadRequest."""
    order = query.values.get("order", "desc")
    if order not in ("asc", "desc"):
        raise BadRequest(f"order must be 'asc' or 'desc', not {shown(order)}.", param="order")
    return Stretch(query.text("after", longest=_ID_LENGTH), read_limit(query.values.get("limit")), order == "desc")


def stretch_of(items: Sequence[MessageItem], stretch: Stretch) -> tuple[list[MessageItem], bool]:
    """That part of items in the order in which they came, and whether more follow. Raises Missing."""
    ordered = list(reversed(items)) if stretch.newest_first else list(items)
    start = 0
    if stretch.after is not None:
        places = [place for place, item in enumerate(ordered, 1) if item.id == stretch.after]
        if not places:
            raise Missing(f"There is no item {shown(stretch.after)} to go on after.", param="after", code="not_found")
        start = places[0]
    return ordered[start : start + stretch.limit], len(ordered) > start + stretch.limit


def read_limit(value: object, usual: int = USUAL) -> int:
    """A query's `limit`. Raises BadRequest."""
    if value is None:
        return usual
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or not 1 <= int(value[:4]) <= MOST:
        raise BadRequest(f"limit must be a whole number from 1 to {MOST}, not {shown(value)}.", param="limit")
    return int(value[:4])
