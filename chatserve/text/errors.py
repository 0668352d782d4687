"""Everything the text room can fail with.

TextError
├── InvalidInput            the request is at fault: a server answers 400 with the message
│   ├── InvalidRole
│   ├── UnsupportedContent
│   ├── InvalidText
│   ├── InvalidStop
│   ├── NoMessages
│   ├── NoChatTemplate
│   └── TemplateRefused
└── TokenizerError          the model's files are at fault: a server does not start
    ├── TokenizerNotFound
    ├── UnsupportedTokenizer
    └── BrokenTemplate

Messages repeat at most a short, escaped piece of what a user sent, so that they can always be encoded.
"""

from __future__ import annotations

ECHO_CHARS = 60


class TextError(Exception):
    """The root."""


class InvalidInput(TextError):
    """The request cannot be answered as it is."""


class InvalidRole(InvalidInput):
    """A message's role is not one of the known ones."""


class UnsupportedContent(InvalidInput):
    """A message holds something other than text."""


class InvalidText(InvalidInput):
    """A string is not Unicode text (it holds half a surrogate pair)."""


class InvalidStop(InvalidInput):
    """A stop string is empty."""


class NoMessages(InvalidInput):
    """There is no message to answer."""


class NoChatTemplate(InvalidInput):
    """The model has no chat template; plain completions still work."""


class TemplateRefused(InvalidInput):
    """The model's chat template refuses these messages; the message is the template's own sentence."""


class TokenizerError(TextError):
    """The tokenizer's files cannot be used."""


class TokenizerNotFound(TokenizerError):
    """The source names no tokenizer."""


class UnsupportedTokenizer(TokenizerError):
    """The tokenizer works in a way that cannot be served exactly."""


class BrokenTemplate(TokenizerError):
    """The chat template is not valid Jinja."""


def echo(value: object) -> str:
    """A short, printable, always encodable piece of what a user sent (at most about ECHO_CHARS characters)."""
    shown = ascii(value[:ECHO_CHARS]) if isinstance(value, str) else ascii(type(value).__name__)
    return f"{shown[: ECHO_CHARS + 2]}..." if len(shown) > ECHO_CHARS + 2 else shown
