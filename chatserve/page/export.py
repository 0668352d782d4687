"""A conversation as a file to keep: JSON with all of it, or Markdown to read. Its words are never HTML on the way."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, Literal, cast
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from chatserve.page.export_wire import ExportedConversation, ExportedMessage, ExportedTurn, Role
from chatserve.page.page_asks import one_line
from chatserve.page.views import kept
from chatserve.server.errors import BadRequest, shown
from chatserve.server.fields import Fields
from chatserve.server.response_asks import RESPONSE
from sessions.turns import Conversation, Turn, title_of

Format = Literal["json", "markdown"]
UNTITLED: Final = "conversation"
LONGEST_NAME: Final = 80
_ENDINGS: Final[dict[Format, str]] = {"json": "json", "markdown": "md"}
_TYPES: Final[dict[Format, str]] = {"json": "application/json", "markdown": "text/markdown; charset=utf-8"}
_NO_NAME: Final = re.compile(r'[\\/:*?"<>|%]')
"""What a file's name cannot hold on some system, or means something else there."""


def read_format(query: Fields) -> Format:
    """Raises BadRequest."""
    asked = query.values.get("format", "json")
    if asked == "json" or asked == "markdown":
        return asked
    raise BadRequest(f"format must be 'json' or 'markdown', not {shown(asked)}.", param="format")


def attachment(conversation: Conversation, turns: Sequence[Turn], kind: Format) -> Response:
    """turns: as they are shown, all of them, none before its parent."""
    if kind == "json":
        content = msgspec.json.format(msgspec.json.encode(exported(conversation, turns)), indent=1)
    else:
        content = as_markdown(conversation, turns).encode()
    headers = {
        "Content-Disposition": disposition(title_of(conversation), _ENDINGS[kind]),
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
    }
    return Response(content, headers=headers, media_type=_TYPES[kind])


def exported(conversation: Conversation, turns: Sequence[Turn]) -> ExportedConversation:
    return ExportedConversation(
        title=title_of(conversation) or None,
        created_at=int(conversation.created),
        leaf=None if conversation.leaf is None else RESPONSE + conversation.leaf,
        turns=tuple(map(_exported, turns)),
    )


def as_markdown(conversation: Conversation, turns: Sequence[Turn]) -> str:
    """What is said on the way to the leaf, each speaker under a heading."""
    parts = [f"# {title_of(conversation) or UNTITLED.capitalize()}"]
    told: str | None = None
    for turn in path_to(conversation.leaf, turns):
        if turn.answer is not None and turn.instructions != told:
            parts.append(f"## Instructions\n\n{turn.instructions or '(none)'}")
            told = turn.instructions
        parts += [f"## {message.role.capitalize()}\n\n{message.content}" for message in turn.messages]
        if turn.answer is not None:
            parts.append(f"## Assistant\n\n{turn.answer}")
    return "\n\n".join(parts) + "\n"


def path_to(leaf: str | None, turns: Sequence[Turn]) -> list[Turn]:
    """The turns from the beginning to this one."""
    known = {turn.id: turn for turn in turns}
    path: list[Turn] = []
    while leaf is not None and leaf in known:
        path.append(known[leaf])
        leaf = known[leaf].parent
    return path[::-1]


def disposition(title: str, ending: str) -> str:
    """A download under the title's name: once in ASCII, and once as it is."""
    name = _file_name(title) or UNTITLED
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = _file_name(plain) or UNTITLED
    return f"attachment; filename=\"{plain}.{ending}\"; filename*=UTF-8''{quote(name, safe='')}.{ending}"


def _file_name(title: str) -> str:
    """On one line, without what names a folder, a stream, a hidden file or a variable; may be empty."""
    return one_line(_NO_NAME.sub(" ", title))[:LONGEST_NAME].strip(" .")


def _exported(turn: Turn) -> ExportedTurn:
    notes = kept(turn)
    return ExportedTurn(
        id=RESPONSE + turn.id,
        parent=None if turn.parent is None else RESPONSE + turn.parent,
        created_at=turn.created,
        messages=tuple(ExportedMessage(cast(Role, each.role), each.content, each.name) for each in turn.messages),
        answer=turn.answer,
        status=turn.status,
        instructions=turn.instructions,
        model=notes.model,
        settings=notes.asked,
        usage=notes.usage,
        times=notes.times,
    )
