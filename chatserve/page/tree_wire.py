"""A conversation as the page reads it: its row in the list, and its tree of turns."""

from __future__ import annotations

import msgspec

from chatserve.server.response_wire import Notes, ResponseUsage
from sessions.turns import Status

Settings = dict[str, bool | int | float | str | None]
"""How an answer was asked for, by the API's names; what was left out is not here."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """As the server measured them. ttft_ms: from the request to the first token.  None: there was no such moment."""

    ttft_ms: float | None
    tokens_per_second: float | None


class TurnNotes(Notes, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept with an answer that the page asked for: all that a response has, and what the page shows besides."""

    times: Times | None = None
    settings: Settings | None = None


class MessageView(msgspec.Struct, frozen=True):
    """html: the text read as Markdown, sanitized; None: shown as it was typed, because its user did."""

    role: str
    text: str
    html: str | None


class TurnView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has ended.

    id, parent: as the API knows responses; a turn without an answer has such an id too.
    answer: null where there is none: messages that nobody answered, or an answer that was deleted.
    thinking_html, blocks: the answer, rendered and sanitized.
    """

    id: str
    parent: str | None
    created_at: int
    status: Status
    instructions: str | None
    messages: tuple[MessageView, ...]
    answer: str | None
    thinking_html: str | None
    blocks: tuple[str, ...]
    usage: ResponseUsage | None
    times: Times | None
    settings: Settings | None


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """All turns of all branches, none before its parent.

    leaf: where the next turn of an API's client goes on.
    running: the turn under way, "elsewhere" where another process makes it; null: none.
    """

    id: str
    title: str | None
    created_at: int
    used_at: int
    leaf: str | None
    running: str | None
    turns: tuple[TurnView, ...]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """running: a turn is under way, in whatever process.  excerpt: of what a search found; plain text."""

    id: str
    title: str | None
    created_at: int
    used_at: int
    running: bool = False
    excerpt: str | msgspec.UnsetType = msgspec.UNSET


class RowList(msgspec.Struct, frozen=True):
    data: tuple[Row, ...]
    has_more: bool
