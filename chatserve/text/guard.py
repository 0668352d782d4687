"""Keeps apart what a template writes and what people wrote, through a template that mixes both into one text.

Before rendering, private characters that occur nowhere in the conversation are put into people's texts, so that no
control token's literal survives in them. After rendering, the literals that are found are therefore the template's own:
they become secret names (see `encoder`), and the private characters are taken out again, which leaves people's texts as
they were.

One exception keeps templates working that look into earlier answers: thinking marks and their like (control tokens that
are not flagged special and that the template itself names) stay readable to the template in assistant messages, between
two private characters; a literal that still stands between the two after rendering is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from chatserve.text.encoder import Encoder
from chatserve.text.errors import InvalidText
from chatserve.text.messages import Message
from chatserve.text.trie import any_of

PRIVATE: Final = (range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFC), range(0x40000, 0xE0000))
NOTHING: Final = "(?!)"


class Controls:
    """The control tokens' literals, ready to be found; what all guards of one model share.

    template: its source; private characters are never taken from it.
    """

    def __init__(self, encoder: Encoder, special: Iterable[str], template: str) -> None:
        """special: the literals that are flagged special; the template must not see those in anybody's text."""
        literals = encoder.controls
        self.names: Mapping[str, str] = {literal: encoder.name(number) for literal, number in literals.items()}
        self.template = template
        readable = [one for one in set(literals) - set(special) if one in template and len(one) > 1]
        self.firsts = tuple(sorted({literal[0] for literal in literals}))
        self.literal = re.compile(any_of(literals) or NOTHING)
        # White space before is tried once a run, at its beginning: a long run must not cost its square.
        self.readable = re.compile(rf"((?:(?<!\s)\s+)?(?:{any_of(readable) or NOTHING})\s*)")


class Guard:
    """For one rendering.

    mark: a private text that nobody wrote and no template changes, to find a place again.
    """

    def __init__(self, controls: Controls, messages: Iterable[Message]) -> None:
        """Raises InvalidText when the messages use up all private characters (hundreds of thousands)."""
        used = set(controls.template).union(*((one.content + (one.name or "")) for one in messages))
        free = (chr(code) for code in chain(*PRIVATE) if chr(code) not in used)
        found = [character for character, _ in zip(free, range(4), strict=False)]
        if len(found) < 4:
            raise InvalidText("The messages use every private character of Unicode; leave some of them out.")
        self._controls = controls
        self._break, self._open, self._close, self.mark = found

    def fields(self, message: Message) -> dict[str, str]:
        """The message as a template may see it."""
        answer = message.role == "assistant"
        content = self._answer(message.content) if answer else self._text(message.content)
        fields = {"role": message.role, "content": content}
        if message.name:
            # Broken at its beginning too: templates write names, unlike contents, between marks of their own.
            fields["name"] = self._break + self._text(message.name)
        return fields

    def sealed(self, rendered: str) -> str:
        """The rendered text for the encoder: the template's control tokens by secret name, people's text as it was."""
        return self.shown(self._controls.literal.sub(self._name, rendered))

    def shown(self, text: str) -> str:
        """A text without private characters, as it was."""
        for private in (self._break, self._open, self._close, self.mark):
            text = text.replace(private, "")
        return text

    def _text(self, text: str) -> str:
        for first in self._controls.firsts:
            text = text.replace(first, first + self._break)
        return text

    def _answer(self, text: str) -> str:
        # White space goes inside, so that a template that strips what is left and right of the literal still does.
        parts = self._controls.readable.split(text)
        between = [f"{self._open}{literal}{self._close}" for literal in parts[1::2]]
        return "".join(chain.from_iterable(zip(map(self._text, parts[::2]), [*between, ""], strict=True)))

    def _name(self, found: re.Match[str]) -> str:
        literal, text = found[0], found.string
        single = len(literal) == 1 and text.startswith(self._break, found.end())
        if single or self._stands_between(text, found.start(), found.end()):
            return literal
        return self._controls.names[literal]

    def _stands_between(self, text: str, start: int, end: int) -> bool:
        while start and text[start - 1].isspace():
            start -= 1
        while end < len(text) and text[end].isspace():
            end += 1
        return start > 0 and text[start - 1] == self._open and text.startswith(self._close, end)
