"""How much text one request may hold: a bound on what is encoded, whatever its bytes and messages."""

from __future__ import annotations

from chatserve.server.errors import BadRequest


def check_length(characters: int, most: int, param: str) -> None:
    """Raises BadRequest for more text than one request may hold."""
    if characters > most:
        raise BadRequest(
            f"{param} holds {characters} characters of text; the limit is {most}. Shorten it.",
            param=param,
            code="string_above_max_length",
        )
