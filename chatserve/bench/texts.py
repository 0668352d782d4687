"""What is said: words from a seeded generator, or the users' messages of recorded conversations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from chatserve.bench.words import WORDS


class Texts(Protocol):
    """The same arguments give the same texts in every process."""

    def system(self, seed: int, group: int, words: int) -> str:
        """The system prompt that a group of conversations shares."""
        ...

    def messages(self, seed: int, number: int, words: Sequence[int]) -> Sequence[str]:
        """What the user of conversation `number` says: at most a message for each length, at least one."""
        ...


@dataclass(frozen=True, slots=True)
class Generated:
    """Words at random: about one token each, exactly as many as are asked for."""

    def system(self, seed: int, group: int, words: int) -> str:
        return _say(random.Random(f"{seed}/system/{group}"), words)

    def messages(self, seed: int, number: int, words: Sequence[int]) -> Sequence[str]:
        source = random.Random(f"{seed}/messages/{number}")
        return [_say(source, count) for count in words]


class BadConversations(Exception):
    """A file of conversations that cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Users' messages from a file, in its order, beginning at a place that the seed chooses and going round.

    Their lengths are the file's; a conversation has no more turns than its record.
    """

    conversations: tuple[tuple[str, ...], ...]

    @classmethod
    def read(cls, file: Path) -> Recorded:
        """A ShareGPT-style JSON file: a list of {"conversations": [{"from": "human", "value": ...}, ...]}, or of
        {"messages": [{"role": "user", "content": ...}, ...]}. Raises BadConversations.
        """
        try:
            records = msgspec.json.decode(file.read_bytes(), type=list[_Record])
        except OSError as error:
            raise BadConversations(f"{file}: {error.strerror}") from None
        except msgspec.DecodeError as error:
            raise BadConversations(
                f"{file}: {error}. It must be a JSON list of objects with 'conversations' (from, value) or 'messages' "
                "(role, content)."
            ) from None
        found = tuple(said for record in records if (said := record.users()))
        if not found:
            raise BadConversations(f"{file}: nobody says anything in it: no message is from 'human' or 'user'.")
        return cls(found)

    def system(self, seed: int, group: int, words: int) -> str:
        return Generated().system(seed, group, words)

    def messages(self, seed: int, number: int, words: Sequence[int]) -> Sequence[str]:
        start = random.Random(f"{seed}/start").randrange(len(self.conversations))
        return self.conversations[(start + number) % len(self.conversations)][: len(words)]


class _Said(msgspec.Struct, rename={"from_": "from"}):
    from_: str = ""
    value: str = ""
    role: str = ""
    content: str = ""


class _Record(msgspec.Struct):
    conversations: list[_Said] = []
    messages: list[_Said] = []

    def users(self) -> tuple[str, ...]:
        spoken = ((said.from_ or said.role, said.value or said.content) for said in self.conversations + self.messages)
        return tuple(text for who, text in spoken if who in ("human", "user") and text.strip())


def _say(source: random.Random, words: int) -> str:
    return " ".join(source.choices(WORDS, k=words))
