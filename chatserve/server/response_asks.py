"""A request for a response: what is to be answered, where it goes on, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from chatserve.server.asks import Bounds, Options, read_options
from chatserve.server.errors import BadRequest, shown
from chatserve.server.fields import Fields
from chatserve.server.item_asks import read_input
from chatserve.server.metadata import read_metadata
from chatserve.server.visit import Visit
from sessions.turns import Message

CONVERSATION: Final = "conv_"
RESPONSE: Final = "resp_"
_ID_LENGTH: Final = 128
_LOGPROBS: Final = "message.output_text.logprobs"

# Each with the values that ask for nothing.
_REFUSED: Mapping[str, tuple[object, ...]] = {
    "background": (False,),
    "context_management": ([],),
    "moderation": (),
    "prompt": (),
    "truncation": ("disabled",),
}
_REFUSED_PARTS: Mapping[str, Mapping[str, tuple[object, ...]]] = {
    "reasoning": {"effort": ("none",)},
    "text": {"format": ({"type": "text"},), "verbosity": ("medium",)},
}
_LONGEST_INSTRUCTIONS: Final = 2**31


class ResponseAsk(msgspec.Struct, frozen=True, kw_only=True):
    """conversation: the id that its next turn is for.  previous: the id of the answer to branch at.  At most one of
    the two; both are as the store knows them.

    instructions: before everything, for this answer only.
    max_output_tokens: as it was asked.
    store: whether the answer is kept.
    """

    options: Options
    messages: tuple[Message, ...]
    instructions: str | None
    conversation: str | None
    previous: str | None
    max_output_tokens: int | None
    metadata: dict[str, str]
    store: bool


def read_response(fields: Fields, bounds: Bounds, most: int, visit: Visit) -> ResponseAsk:
    """A request of at most `most` items. Raises BadRequest."""
    _refuse(fields)
    conversation, previous = _conversation(fields), _previous(fields)
    if conversation is not None and previous is not None:
        raise BadRequest(
            "previous_response_id and conversation cannot both be given: a branch belongs to no conversation. "
            "Leave one of them out.",
            param="previous_response_id",
            code="mutually_exclusive_parameters",
        )
    limit = fields.integer("max_output_tokens", low=1)
    sampling = fields if limit is None else Fields({**fields.values, "max_completion_tokens": limit})
    return ResponseAsk(
        options=read_options(sampling, bounds, visit),
        messages=read_input(fields.values.get("input"), most),
        instructions=fields.text("instructions", longest=_LONGEST_INSTRUCTIONS),
        conversation=conversation,
        previous=previous,
        max_output_tokens=limit,
        metadata=read_metadata(fields),
        store=fields.flag("store") is not False,
    )


def _refuse(fields: Fields) -> None:
    for name, neutral in _REFUSED.items():
        fields.refuse(name, *neutral)
    for name, neutral_parts in _REFUSED_PARTS.items():
        for part, value in fields.nested(name).values.items():
            whole = f"{name}.{part}"
            Fields({whole: value}).refuse(whole, *neutral_parts.get(part, ()))
    include = fields.values.get("include")
    if isinstance(include, list) and _LOGPROBS in include:
        raise BadRequest(
            f"include: {_LOGPROBS!r} is not supported by this server. Leave it out.",
            param="include",
            code="unsupported_parameter",
        )


def _conversation(fields: Fields) -> str | None:
    value = fields.values.get("conversation")
    named = fields if value is None or isinstance(value, str) else Fields({"conversation": _id_in(value)})
    name = named.text("conversation", longest=_ID_LENGTH)
    return None if name is None else bare_id(name, CONVERSATION, "conversation")


def _id_in(value: object) -> str:
    if isinstance(value, dict) and isinstance(value.get("id"), str):
        return str(value["id"])
    raise BadRequest(
        f"conversation must be an id or an object with a string field 'id', not {shown(value)}.",
        param="conversation",
        code="invalid_type",
    )


def _previous(fields: Fields) -> str | None:
    name = fields.text("previous_response_id", longest=_ID_LENGTH)
    return None if name is None else bare_id(name, RESPONSE, "previous_response_id")


def bare_id(name: str, prefix: str, param: str) -> str:
    """An id as the store knows it. Raises BadRequest for one of another kind."""
    if not name.startswith(prefix):
        raise BadRequest(f"{param} must be an id that begins with '{prefix}', not {shown(name)}.", param=param)
    return name.removeprefix(prefix)
