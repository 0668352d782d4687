"""What a page asks for when its user says something."""

from __future__ import annotations

from typing import Final

import msgspec

from chatserve.page.tree_wire import Settings
from chatserve.server.asks import Bounds, Options, read_options
from chatserve.server.errors import BadRequest, shown
from chatserve.server.fields import Fields
from chatserve.server.lengths import check_length
from chatserve.server.response_asks import RESPONSE, bare_id
from chatserve.server.visit import Visit

_ID_LENGTH: Final = 128
_LONGEST: Final = 2**31
_SETTINGS: Final = frozenset(
    (
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "max_output_tokens",
        "seed",
    )
)


class TurnAsk(msgspec.Struct, frozen=True, kw_only=True):
    """parent: the turn it goes on from, as the store knows it; None: where the conversation begins.

    settings: those that were given; all of them are in `options`.
    """

    options: Options
    input: str
    parent: str | None
    instructions: str | None
    settings: Settings

    @property
    def max_output_tokens(self) -> int | None:
        most = self.settings.get("max_output_tokens")
        return most if isinstance(most, int) else None


def read_turn(fields: Fields, bounds: Bounds, most: int, visit: Visit) -> TurnAsk:
    """most: characters of all its text. Raises BadRequest."""
    text = fields.text("input", longest=_LONGEST)
    if not text:
        raise BadRequest("input must be what the user says: a text of at least one character.", param="input")
    instructions = fields.text("instructions", longest=_LONGEST)
    check_length(len(text) + len(instructions or ""), most, "input")
    parent = fields.text("parent", longest=_ID_LENGTH)
    asked = _settings(fields)
    sampling = {"stream": True, "max_completion_tokens": asked.get("max_output_tokens"), **asked}
    options = read_options(Fields(sampling), bounds, visit)
    settings = {name: value for name, value in asked.items() if isinstance(value, int | float)}
    return TurnAsk(
        options=options,
        input=text,
        parent=None if parent is None else bare_id(parent, RESPONSE, "parent"),
        instructions=instructions or None,
        settings=dict(settings),
    )


def _settings(fields: Fields) -> dict[str, object]:
    """Those that say something. Their values are checked where they are used, but for one with a name of its own."""
    given = fields.nested("settings")
    for name in given.values:
        if name not in _SETTINGS:
            raise BadRequest(f"settings has no field {shown(name)}.", param="settings", code="unsupported_parameter")
    given.integer("max_output_tokens", low=1)
    return {name: value for name, value in given.values.items() if value is not None}
