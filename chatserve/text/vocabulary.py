"""What each token id says, in bytes.

A token may hold a part of a character, so bytes are the only exact measure of it; text is made of them further on
(`detokenizer`). Control tokens say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from chatserve.text.errors import UnsupportedTokenizer

BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SUPPORTED: Final = "ByteLevel, Metaspace, or a Sequence of Replace, ByteFallback, Fuse and a leading Strip"

Say = Callable[[str], bytes]


class Vocabulary:
    """Token ids to bytes, for one tokenizer. Unchanging, so any thread may use it.

    size: one more than the largest id.
    lead: how many leading spaces of a text are the tokenizer's own and are not said (sentencepiece's first mark).
    """

    def __init__(self, tokenizer: dict[str, Any]) -> None:
        """tokenizer: tokenizer.json, parsed. Raises UnsupportedTokenizer for a decoder that cannot be followed."""
        say, self.lead = _reader(tokenizer.get("decoder") or {})
        words = _words(tokenizer["model"]["vocab"])
        added = {token["id"]: token for token in tokenizer.get("added_tokens") or ()}
        self.size = max(max(words, default=-1), max(added, default=-1)) + 1
        self._said = [b""] * self.size
        for number, word in words.items():
            self._said[number] = say(word)
        for number, token in added.items():
            self._said[number] = b"" if token["special"] else _added(token["content"], say)
        self._atoms = {said: number for number, said in enumerate(self._said) if number not in added and _is_atom(said)}

    def said(self, token: int) -> bytes:
        """The bytes of one token; none for a control token and for an id outside the vocabulary (a padding row)."""
        return self._said[token] if 0 <= token < self.size else b""

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of all tokens at once. Bytes that make no character become U+FFFD, as everywhere in UTF-8."""
        text = b"".join(self.said(token) for token in tokens).decode("utf-8", "replace")
        for _ in range(self.lead):
            text = text.removeprefix(" ")
        return text

    def spell(self, text: str) -> tuple[int, ...] | None:
        """Ids that say exactly this text, a character or a byte each; None where the vocabulary lacks one."""
        spelled: list[int] = []
        for character in text:
            said = character.encode()
            whole = self._atoms.get(said)
            parts = [self._atoms.get(said[i : i + 1]) for i in range(len(said))] if whole is None else [whole]
            for part in parts:
                if part is None:
                    return None
                spelled.append(part)
        return tuple(spelled)


def _words(vocab: dict[str, int] | list[list[Any]]) -> dict[int, str]:
    if isinstance(vocab, list):
        return {number: piece[0] for number, piece in enumerate(vocab)}
    return {number: word for word, number in vocab.items()}


def _is_atom(said: bytes) -> bool:
    """One byte, or one whole character of several."""
    text = said.decode("utf-8", "replace")
    return len(said) == 1 or (len(text) == 1 and text.encode() == said)


def _added(content: str, say: Say) -> bytes:
    """An added token is raw text to a byte-level decoder, and a word like others to the rest."""
    return content.encode() if say is _byte_level else say(content)


def _reader(decoder: dict[str, Any]) -> tuple[Say, int]:
    """How one token is read, and how many leading spaces of a whole text are dropped."""
    kind = decoder.get("type")
    if kind == "ByteLevel":
        return _byte_level, 0
    if kind == "Metaspace":
        lead = 0 if decoder.get("prepend_scheme", "always") == "never" else 1
        return _replacing([(decoder["replacement"], " ")], byte_fallback=False), lead
    if kind == "Sequence":
        steps = decoder["decoders"]
        if [step["type"] for step in steps] == ["ByteLevel"]:
            return _byte_level, 0
        return _sequence(steps)
    raise UnsupportedTokenizer(f"The tokenizer's decoder {kind!r} cannot be followed. Supported: {SUPPORTED}.")


def _sequence(steps: list[dict[str, Any]]) -> tuple[Say, int]:
    swaps: list[tuple[str, str]] = []
    lead, byte_fallback, fused = 0, False, False
    for step in steps:
        match step:
            case {"type": "Replace", "pattern": {"String": old}, "content": new} if not fused:
                swaps.append((old, new))
            case {"type": "ByteFallback"} if not fused:
                byte_fallback = True
            case {"type": "Fuse"}:
                fused = True
            case {"type": "Strip", "content": " ", "start": start, "stop": 0} if fused:
                lead += start
            case {"type": "Metaspace", "replacement": mark} if not fused:
                swaps.append((mark, " "))
                lead += 0 if step.get("prepend_scheme", "always") == "never" else 1
            case _:
                raise UnsupportedTokenizer(f"The decoder step {step} cannot be followed. Supported: {SUPPORTED}.")
    return _replacing(swaps, byte_fallback=byte_fallback), lead


def _replacing(swaps: list[tuple[str, str]], *, byte_fallback: bool) -> Say:
    def say(word: str) -> bytes:
        for old, new in swaps:
            word = word.replace(old, new)
        byte = BYTE_TOKEN.fullmatch(word) if byte_fallback else None
        return bytes([int(byte[1], 16)]) if byte else word.encode()

    return say


def _byte_alphabet() -> dict[str, int]:
    """The characters by which byte-level vocabularies write bytes: printable ones as they are, others from U+0100."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


_ALPHABET: Final = _byte_alphabet()


def _byte_level(word: str) -> bytes:
    try:
        return bytes([_ALPHABET[character] for character in word])
    except KeyError:
        return word.encode()
