"""A chat's messages as plain values, and how an API's looser shapes become them."""

from __future__ import annotations

from typing import Final

import msgspec

from chatserve.text.errors import InvalidRole, InvalidText, UnsupportedContent, echo

ROLES: Final = ("system", "user", "assistant", "tool")
ALIASES: Final = {"developer": "system"}
TEXT_PARTS: Final = ("text", "input_text", "output_text")


class Message(msgspec.Struct, frozen=True):
    """One message: who said it (one of ROLES), the text, and optionally the speaker's name."""

    role: str
    content: str
    name: str | None = None


def message(role: object, content: object, name: object = None) -> Message:
    """A message from an API's values.

    role: one of ROLES, or "developer", today's other word for "system".
    content: a string, a list of text parts (joined as they are), or None (an empty text).
    Raises InvalidRole, UnsupportedContent, InvalidText.
    """
    if name is not None and not isinstance(name, str):
        raise UnsupportedContent(f"A message's name must be a string, not {echo(name)}.")
    return Message(role_of(role), join_content(content), None if name is None else unicode_text(name))


def role_of(role: object) -> str:
    """The role's one spelling. Raises InvalidRole."""
    if isinstance(role, str):
        known = ALIASES.get(role, role)
        if known in ROLES:
            return known
    raise InvalidRole(f"Unknown role {echo(role)}. Use one of: {', '.join((*ROLES, *ALIASES))}.")


def join_content(content: object) -> str:
    """The text of a message's content: a string, None, or a list of text parts, joined before anything reads them.

    Raises UnsupportedContent, InvalidText.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return unicode_text(content)
    if isinstance(content, list | tuple):
        return unicode_text("".join(_part_text(part) for part in content))
    raise UnsupportedContent(f"Content must be a string or a list of text parts, not {echo(content)}.")


def unicode_text(text: str) -> str:
    """The text itself. Raises InvalidText when it holds half a surrogate pair, which no encoding can carry."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidText(f"The text holds half a surrogate pair at character {error.start}.") from None
    return text


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise UnsupportedContent(f"A content part must be an object with a type, not {echo(part)}.")
    kind, text = part.get("type"), part.get("text")
    if kind not in TEXT_PARTS:
        raise UnsupportedContent(f"Content parts of type {echo(kind)} are not supported; send type 'text'.")
    if not isinstance(text, str):
        raise UnsupportedContent("A text part needs a string field 'text'.")
    return text
