"""The items that a client gives to a conversation or a response: messages, and of those only text."""

from __future__ import annotations

from typing import Final

from chatserve.server.errors import BadRequest, shown
from chatserve.text.errors import InvalidInput
from chatserve.text.messages import join_content
from sessions.turns import Message

_ROLES: Final = ("user", "assistant", "system", "developer")


def read_input(value: object, most: int) -> tuple[Message, ...]:
    """What a response answers: one text of the user's, or at most `most` items. Raises BadRequest."""
    if isinstance(value, str):
        return (Message("user", value),)
    return read_items(value, "input", most, also="a string or ")


def read_items(value: object, where: str, most: int, also: str = "") -> tuple[Message, ...]:
    """At least one item and at most `most`. Raises BadRequest.

    where: the field that holds them, for messages.
    """
    if not isinstance(value, list) or not value:
        raise BadRequest(f"{where} must be {also}a list of at least one message, not {shown(value)}.", param=where)
    if len(value) > most:
        raise BadRequest(f"{where} holds {len(value)} items; the limit is {most}.", param=where)
    return tuple(_item(item, f"{where}[{place}]") for place, item in enumerate(value))


def _item(value: object, where: str) -> Message:
    if not isinstance(value, dict):
        raise BadRequest(f"{where} must be an object, not {shown(value)}.", param=where)
    kind = value.get("type", "message")
    if kind != "message":
        raise BadRequest(
            f"{where}.type: items of type {shown(kind)} are not supported by this server; send messages.",
            param=f"{where}.type",
            code="unsupported_parameter",
        )
    role = value.get("role")
    if role not in _ROLES:
        raise BadRequest(f"{where}.role must be one of {', '.join(_ROLES)}, not {shown(role)}.", param=f"{where}.role")
    return Message(role, _content(value.get("content"), f"{where}.content"))


def _content(value: object, where: str) -> str:
    if value is None or value == []:
        raise BadRequest(f"{where} must be a string or a list of text parts, not {shown(value)}.", param=where)
    try:
        return join_content(value)
    except InvalidInput as error:
        raise BadRequest(f"{where}: {error}", param=where) from None
