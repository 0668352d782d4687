"""What a conversation is made of: frozen values, and what can be read off a chain of turns.

A conversation is a tree of turns. A chain is the path from a root to one turn; its token ids are the
concatenation of each turn's `prompt_ids` and `output_ids`, beginning at the last turn that `restarts`.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

Status = Literal["completed", "length", "cancelled", "failed"]

TITLE = "title"
"""The metadata's key of a conversation's title."""
METADATA_PAIRS, METADATA_KEY, METADATA_VALUE = 16, 64, 512
"""The most pairs, and characters of a key and of a value."""


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
    answer: the text that the user saw; None where messages were only added and nothing was generated: such a turn has
        no ids, its messages are encoded by the next turn that has an answer.
        One without ids, its prompt's included, was given elsewhere: the next turn encodes the whole chain.
    prompt_ids: only the ids that this turn added after its parent's ids (whatever follows the parent's
        answer, its end token included, up to where the answer begins).
    output_ids: the ids of the answer that were kept, without the end token.
    restarts: the template rewrote history, so `prompt_ids` is the whole prompt and the ids of earlier turns
        no longer count. The messages of earlier turns still do.
    created: when the turn ended, in seconds since the epoch.
    instructions: what stood before all messages in this turn's prompt only, as a system message that is in no
        turn's `messages`.
    detail: what the API keeps with the answer (its metadata, parameters, usage), as JSON; opaque here.
    """

    id: str
    conversation: str
    parent: str | None
    digest: bytes
    messages: tuple[Message, ...]
    answer: str | None
    prompt_ids: array[int]
    output_ids: array[int]
    restarts: bool
    status: Status
    created: float
    instructions: str | None = None
    detail: bytes = b""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A tree of turns that belongs to one tenant.

    session: the name that it is continued by: the client's own, or made of the conversation's id; None when it is only
        known by its messages and its turns' ids.
    leaf: the turn that the session's next turn continues; always None without a session.
    created, used: seconds since the epoch; `used` is the end of its latest turn.
    metadata: the client's own notes.
    """

    id: str
    tenant: str
    created: float
    used: float
    session: str | None = None
    leaf: str | None = None
    metadata: dict[str, str] = {}


def wordless(turn: Turn) -> Turn:
    """What is told of a turn that was hidden: where it stands, and nothing of what was said in it."""
    return msgspec.structs.replace(
        turn, messages=(), answer=None, prompt_ids=array("i"), output_ids=array("i"), instructions=None, detail=b""
    )


def title_of(conversation: Conversation) -> str:
    """What a person knows it by: the title in its metadata, or the name that a client gave it; may be empty."""
    own = f"conv_{conversation.id}"
    name = conversation.session if conversation.session != own else None
    return conversation.metadata.get(TITLE) or name or ""


def check_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """A copy. Raises ValueError beyond the limits, and for text that is not valid Unicode."""
    if len(metadata) > METADATA_PAIRS:
        raise ValueError(f"metadata has {len(metadata)} pairs; at most {METADATA_PAIRS} are kept")
    for key, value in metadata.items():
        if len(key) > METADATA_KEY:
            raise ValueError(f"a metadata key has {len(key)} characters; at most {METADATA_KEY} are kept")
        if len(value) > METADATA_VALUE:
            raise ValueError(f"a metadata value has {len(value)} characters; at most {METADATA_VALUE} are kept")
        if any("\ud800" <= letter <= "\udfff" for letter in key + value):
            raise ValueError("metadata holds half a surrogate pair, which is no text")
    return dict(metadata)


def chain_messages(chain: Sequence[Turn]) -> tuple[Message, ...]:
    """All messages of a chain, root first, answers included."""
    messages: list[Message] = []
    for turn in chain:
        messages += turn.messages
        if turn.answer is not None:
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
