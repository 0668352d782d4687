"""From what is stored to what the page shows."""

from __future__ import annotations

from typing import Final

import msgspec

from chatserve.page.renderings import Renderings
from chatserve.page.tree_wire import MessageView, Settings, Times, TurnView
from chatserve.server.response_asks import RESPONSE
from chatserve.server.response_wire import ResponseUsage
from sessions.turns import Message, Turn


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What any endpoint may have kept with an answer."""

    model: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_output_tokens: int | None = None
    usage: ResponseUsage | None = None
    times: Times | None = None
    settings: Settings | None = None

    @property
    def asked(self) -> Settings | None:
        """The settings, also of a response that was not the page's."""
        if self.settings is not None:
            return self.settings
        names = ("temperature", "top_p", "max_output_tokens")
        found: Settings = {name: value for name in names if (value := getattr(self, name)) is not None}
        return found or None


_NOTHING: Final = Kept()
_decoder: Final = msgspec.json.Decoder(Kept)


def kept(turn: Turn) -> Kept:
    return _decoder.decode(turn.detail) if turn.detail else _NOTHING


def turn_view(turn: Turn, renderings: Renderings) -> TurnView:
    """A turn as it is stored. Long texts take milliseconds to render: many turns belong in a thread."""
    notes = kept(turn)
    rendered = None if turn.answer is None else renderings.answer(turn.answer)
    return TurnView(
        id=RESPONSE + turn.id,
        parent=None if turn.parent is None else RESPONSE + turn.parent,
        created_at=int(turn.created),
        status=turn.status,
        instructions=turn.instructions,
        messages=tuple(message_view(message, renderings) for message in turn.messages),
        answer=turn.answer,
        thinking_html=None if rendered is None else rendered.thinking,
        blocks=() if rendered is None else rendered.blocks,
        usage=notes.usage,
        times=notes.times,
        settings=notes.asked,
    )


def message_view(message: Message, renderings: Renderings) -> MessageView:
    html = None if message.role == "user" else renderings.message(message.content)
    return MessageView(message.role, message.content, html)
