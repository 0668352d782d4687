"""The events of a conversation that is watched."""

from __future__ import annotations

import msgspec

from chatserve.page.tree_wire import MessageView, Settings, TurnView
from chatserve.server.errors import ErrorDetail


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Ids are those of responses."""


class State(_Event, frozen=True, tag="state"):
    """How it stands; always the first event. elsewhere: what runs is not followed here."""

    running: str | None
    elsewhere: bool


class BegunView(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that is not answered yet. created_at: when it was asked for."""

    id: str
    parent: str | None
    created_at: int
    messages: tuple[MessageView, ...]
    instructions: str | None
    settings: Settings | None


class Begun(_Event, frozen=True, tag="turn"):
    turn: BegunView


class Grown(_Event, frozen=True, tag="text", rename={"start": "from"}):
    """The answer's blocks from `start` on are these now. tokens: of the answer so far."""

    id: str
    start: int
    blocks: tuple[str, ...]
    thinking_html: str | None
    tokens: int


class Ended(_Event, frozen=True, tag="end"):
    """It is saved."""

    turn: TurnView


class Failed(_Event, frozen=True, tag="error"):
    """What was seen of it may have been saved."""

    id: str
    error: ErrorDetail


class Renamed(_Event, frozen=True, tag="renamed"):
    title: str


class Deleted(_Event, frozen=True, tag="deleted"):
    """Nothing follows."""


class Changed(_Event, frozen=True, tag="changed"):
    """Somebody else's turn has ended: the tree is another one."""


Event = State | Begun | Grown | Ended | Failed | Renamed | Deleted | Changed
