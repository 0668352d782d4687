"""A hash chain over messages, so that a stateless request finds the turns it repeats.

digest_0 = H(tenant), digest_k = H(digest_{k-1}, role, name, content). Every field carries its length, and an
absent name differs from an empty one, so that no field can imitate another. A digest only proposes: whoever
finds a turn by it compares the messages themselves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

from sessions.turns import Message


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


class DigestChain:
    """The chain over one hash function (bytes of any length to bytes of a fixed length)."""

    def __init__(self, hash_bytes: Callable[[bytes], bytes] = sha256) -> None:
        self._hash = hash_bytes

    def root(self, tenant: str) -> bytes:
        """Where the chain of every conversation of this tenant begins."""
        return self._hash(b"tenant" + _field(tenant))

    def extend(self, digest: bytes, messages: Iterable[Message]) -> bytes:
        """The digest after more messages. Raises ValueError for text that is not valid Unicode (a lone
        surrogate).
        """
        for message in messages:
            fields = _field(message.role) + _field(message.name) + _field(message.content)
            digest = self._hash(b"message" + _sized(digest) + fields)
        return digest

    def turn(
        self, before: bytes, instructions: str | None, messages: Iterable[Message], answer: str | None = None
    ) -> bytes:
        """After a turn: its instructions, its messages, and its answer where it has one. Raises as `extend`."""
        told = () if instructions is None else (Message("instructions", instructions),)
        said = () if answer is None else (Message("assistant", answer),)
        return self.extend(before, (*told, *messages, *said))

    def prefixes(self, tenant: str, messages: Sequence[Message]) -> list[bytes]:
        """The digests of every proper prefix that ends in an answer, longest first.

        Raises ValueError for text that is not valid Unicode.
        """
        digest = self.root(tenant)
        found: list[bytes] = []
        for message in messages[:-1]:
            digest = self.extend(digest, (message,))
            if message.role == "assistant":
                found.append(digest)
        found.reverse()
        return found


def _field(text: str | None) -> bytes:
    return b"\x00" if text is None else b"\x01" + _sized(text.encode())


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data
