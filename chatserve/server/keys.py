"""API keys: a file of them, and who holds one.

A line is `NAME:SECRET`, then any of `admin`, `requests=N` and `tokens=N` (a minute). Empty lines and lines that begin
with # say nothing. A name may have several secrets, a line each, so that they can be changed one after the other.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chatserve.server.visit import Caller, Rates

log = logging.getLogger(__name__)

SHORTEST_SECRET: Final = 16
MOST_KEYS: Final = 1024
LONE_KEY: Final = "default"
"""The name of a key that comes without a file."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_RATE = re.compile(r"(requests|tokens)=([1-9][0-9]{0,14})")


class KeysUnusable(Exception):
    """The keys cannot be used; the message says which line and why, and repeats nothing of it."""


@dataclass(frozen=True, slots=True)
class Key:
    """digest: the secret's SHA-256; the secret itself is not kept."""

    caller: Caller
    digest: bytes = field(repr=False)


class KeyRing:
    """The keys that are good now. load: gives them, at once and whenever they are to be read again."""

    def __init__(self, load: Callable[[], Sequence[Key]]) -> None:
        self._load = load
        self._keys = tuple(load())

    def holder(self, secret: str) -> Caller | None:
        """Whose secret this is. Every key is compared in constant time, wherever the right one is."""
        digest, found = _digest(secret), None
        for key in self._keys:
            if hmac.compare_digest(digest, key.digest):
                found = key.caller
        return found

    def reload(self) -> None:
        """Read the keys again; those that cannot be used change nothing."""
        try:
            self._keys = tuple(self._load())
        except KeysUnusable as error:
            log.error("the keys stay as they were: %s", error)
        else:
            log.info("%d keys read", len(self._keys))


def lone_key(secret: str, template: Caller) -> list[Key]:
    """The one key of a server without a file of them; its holder runs the server. Raises KeysUnusable."""
    if not _is_secret(secret):
        raise KeysUnusable(f"CHATSERVE_API_KEY must be {_SECRET_RULE}.")
    return [_key(LONE_KEY, secret, template, ("admin",))]


def read_keys(path: Path, template: Caller) -> list[Key]:
    """The keys of a file. template: what a key has whose line does not say otherwise. Raises KeysUnusable."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise KeysUnusable(f"the file of API keys cannot be read: {reason}.") from None
    keys = [
        _parse(line.split(), f"line {number} of the file of API keys", template)
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not 1 <= len(keys) <= MOST_KEYS:
        raise KeysUnusable(f"the file of API keys holds {len(keys)} keys; it must hold 1 to {MOST_KEYS}.")
    _check_together(keys)
    return keys


_SECRET_RULE: Final = f"at least {SHORTEST_SECRET} ASCII characters without spaces (`openssl rand -hex 24` makes one)"


def _parse(words: Sequence[str], where: str, template: Caller) -> Key:
    name, _, secret = words[0].partition(":")
    if not _NAME.fullmatch(name):
        raise KeysUnusable(f"{where} must begin with a name of 1 to 64 letters, digits, dots, dashes or underscores.")
    if not _is_secret(secret):
        raise KeysUnusable(f"{where} must have a secret after the name and a colon: {_SECRET_RULE}.")
    for word in words[1:]:
        if word != "admin" and not _RATE.fullmatch(word):
            raise KeysUnusable(f"{where} may say admin, requests=N and tokens=N after the secret, and nothing else.")
    return _key(name, secret, template, words[1:])


def _key(name: str, secret: str, template: Caller, words: Sequence[str]) -> Key:
    said = {match[1]: int(match[2]) for word in words if (match := _RATE.fullmatch(word))}
    rates = Rates(said.get("requests", template.rates.requests), said.get("tokens", template.rates.tokens))
    caller = Caller(name, admin="admin" in words, rates=rates, shares_prefixes=template.shares_prefixes)
    return Key(caller, _digest(secret))


def _check_together(keys: Sequence[Key]) -> None:
    """A secret has one holder, and a name one set of rights."""
    if len({key.digest for key in keys}) < len(keys):
        raise KeysUnusable("the file of API keys holds one secret twice.")
    callers = {key.caller for key in keys}
    if len({caller.name for caller in callers}) < len(callers):
        raise KeysUnusable("the file of API keys gives one name different rights on different lines.")


def _is_secret(text: str) -> bool:
    return len(text) >= SHORTEST_SECRET and text.isascii() and text.isprintable() and " " not in text


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
