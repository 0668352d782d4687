"""What a conversation is made of: frozen values, and what can be read off a chain of turns.

A conversation is a tree of turns. A chain is the path from a root to one turn; its token ids are the
concatenation of each turn's `prompt_ids` and `output_ids`, beginning at the last turn that `restarts`.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from typing import Literal

import msgspec

Status = Literal["completed", "length", "cancelled", "failed"]


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message as the client sent it, or an answer as the client saw it."""

    role: str
    content: str
    name: str | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Some new messages and the answer to them.

    parent: the turn that this one continues, of the same conversation; None at a root.
    digest: of all messages from the root up to and including the answer (see `sessions.digest`).
    messages: only those that this turn added.
    answer: the text that the user saw.
    prompt_ids: only the ids that this turn added after its parent's ids (whatever follows the parent's
        answer, its end token included, up to where the answer begins).
    output_ids: the ids of the answer that were kept, without the end token.
    restarts: the template rewrote history, so `prompt_ids` is the whole prompt and the ids of earlier turns
        no longer count. The messages of earlier turns still do.
    created: when the turn ended, in seconds since the epoch.
    """

    id: str
    conversation: str
    parent: str | None
    digest: bytes
    messages: tuple[Message, ...]
    answer: str
    prompt_ids: array[int]
    output_ids: array[int]
    restarts: bool
    status: Status
    created: float


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A tree of turns that belongs to one tenant.

    session: the name that the client chose for it; None when it is only known by its messages.
    leaf: the turn that the session's next turn continues; always None without a session.
    created, used: seconds since the epoch; `used` is the end of its latest turn.
    """

    id: str
    tenant: str
    created: float
    used: float
    session: str | None = None
    leaf: str | None = None


def chain_messages(chain: Sequence[Turn]) -> tuple[Message, ...]:
    """All messages of a chain, root first, answers included."""
    messages: list[Message] = []
    for turn in chain:
        messages += turn.messages
        messages.append(Message("assistant", turn.answer))
    return tuple(messages)


def chain_ids(chain: Sequence[Turn]) -> array[int]:
    """The token ids that the chain's last answer ended with: prompt and answer of every turn since the last
    restart.
    """
    ids = array("i")
    for turn in chain:
        if turn.restarts:
            ids = array("i")
        ids += turn.prompt_ids
        ids += turn.output_ids
    return ids


def pack_ids(ids: array[int]) -> bytes:
    """Token ids as they are stored: int32, little-endian."""
    return _little_endian(ids).tobytes()


def unpack_ids(blob: bytes) -> array[int]:
    """The reverse of `pack_ids`. Raises ValueError when the blob is not a whole number of ids."""
    ids = array("i")
    ids.frombytes(blob)
    return _little_endian(ids)


def _little_endian(ids: array[int]) -> array[int]:
    assert ids.itemsize == 4, "token ids are 32 bits wide"
    if sys.byteorder == "little":
        return ids
    swapped = ids[:]
    swapped.byteswap()
    return swapped
