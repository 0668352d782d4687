"""A conversation as a file: what `export` writes and `import` reads. A newer layout gets a new version."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from chatserve.page.tree_wire import Settings, Times
from chatserve.server.response_wire import ResponseUsage
from sessions.turns import Status

FORMAT: Final = "chatserve.conversation"
VERSION: Final = 1

Role = Literal["user", "assistant", "system", "developer", "tool"]


class ExportedMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    role: Role
    content: str
    name: str | None = None


class ExportedTurn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """parent: the id of one of the turns before it.  The last five: of an answer, where they are known."""

    id: str
    parent: str | None
    created_at: float
    messages: tuple[ExportedMessage, ...] = ()
    answer: str | None = None
    status: Status = "completed"
    instructions: str | None = None
    model: str | None = None
    settings: Settings | None = None
    usage: ResponseUsage | None = None
    times: Times | None = None


class ExportedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """turns: of all branches, none before its parent.  leaf: the one that was gone on from last."""

    format: Literal["chatserve.conversation"] = "chatserve.conversation"
    version: Literal[1] = 1
    title: str | None
    created_at: int
    leaf: str | None
    turns: tuple[ExportedTurn, ...]
