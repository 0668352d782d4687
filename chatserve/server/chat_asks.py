"""A chat request: its messages and the conversation they belong to."""

from __future__ import annotations

import re

import msgspec

from chatserve.server.asks import Bounds, Options, read_options
from chatserve.server.errors import BadRequest, shown
from chatserve.server.fields import Fields
from chatserve.server.visit import Visit
from chatserve.text.errors import InvalidInput
from chatserve.text.messages import join_content, role_of
from sessions.turns import Message

_NAME_LENGTH = 64
_SESSION_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class ChatAsk(msgspec.Struct, frozen=True, kw_only=True):
    """session_id: messages hold only what is new in that conversation; None: they hold all of it."""

    options: Options
    messages: tuple[Message, ...]
    session_id: str | None


def read_chat(fields: Fields, bounds: Bounds, most: int, visit: Visit) -> ChatAsk:
    """A chat request of at most `most` messages. Raises BadRequest."""
    fields.refuse("logprobs", False)
    return ChatAsk(
        options=read_options(fields, bounds, visit),
        messages=_messages(fields.values.get("messages"), most),
        session_id=_session_id(fields),
    )


def _session_id(fields: Fields) -> str | None:
    value = fields.text("session_id", longest=128)
    if value is None or _SESSION_ID.fullmatch(value):
        return value
    raise BadRequest(
        f"session_id must be 1 to 128 letters, digits, dots, colons, dashes or underscores, not {shown(value)}.",
        param="session_id",
    )


def _messages(value: object, most: int) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value:
        raise BadRequest(f"messages must be a list of at least one message, not {shown(value)}.", param="messages")
    if len(value) > most:
        raise BadRequest(f"messages holds {len(value)} messages; the limit is {most}.", param="messages")
    return tuple(_message(item, f"messages[{place}]") for place, item in enumerate(value))


def _message(value: object, where: str) -> Message:
    if not isinstance(value, dict):
        raise BadRequest(f"{where} must be an object, not {shown(value)}.", param=where)
    for refused in ("tool_calls", "function_call", "audio"):
        if value.get(refused):
            raise BadRequest(
                f"{where}.{refused} is not supported by this server.",
                param=f"{where}.{refused}",
                code="unsupported_parameter",
            )
    name = Fields(value).text("name", longest=_NAME_LENGTH)
    try:
        role = role_of(value.get("role"))
    except InvalidInput as error:
        raise BadRequest(f"{where}.role: {error}", param=f"{where}.role") from None
    return Message(role, _content(value.get("content"), role, f"{where}.content"), name)


def _content(value: object, role: str, where: str) -> str:
    """An empty string is a message like any other; nothing at all is one only of an assistant."""
    if role != "assistant" and (value is None or value == []):
        raise BadRequest(f"{where} must be a string or a list of text parts, not {shown(value)}.", param=where)
    try:
        return join_content(value)
    except InvalidInput as error:
        raise BadRequest(f"{where}: {error}", param=where) from None
