"""Turns and conversations as Redis keeps them, and back. What comes back is checked against what was asked for."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sessions.chains import parents_first
from sessions.store import BadRecord
from sessions.turns import Conversation, Message, Status, Turn, pack_ids, unpack_ids, wordless

RECORD = 1
"""The layout of `Record`: a newer one gets a new number and is read beside this one."""


class Record(msgspec.Struct, frozen=True, array_like=True):
    """A turn in MessagePack; the ids as int32 bytes."""

    layout: int
    id: str
    conversation: str
    parent: str | None
    digest: bytes
    messages: tuple[Message, ...]
    answer: str | None
    prompt_ids: bytes
    output_ids: bytes
    restarts: bool
    status: Status
    created: float
    instructions: str | None
    detail: bytes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)
_metadata = msgspec.json.Decoder(dict[str, str])


def turn_to_record(turn: Turn) -> bytes:
    return _encoder.encode(
        Record(
            RECORD,
            turn.id,
            turn.conversation,
            turn.parent,
            turn.digest,
            turn.messages,
            turn.answer,
            pack_ids(turn.prompt_ids),
            pack_ids(turn.output_ids),
            turn.restarts,
            turn.status,
            turn.created,
            turn.instructions,
            turn.detail,
        )
    )


def turn_from_record(data: bytes) -> Turn:
    """Raises BadRecord."""
    try:
        record = _decoder.decode(data)
        if record.layout != RECORD:
            raise BadRecord(f"turn {record.id} has layout {record.layout}; this program reads layout {RECORD}")
        return Turn(
            id=record.id,
            conversation=record.conversation,
            parent=record.parent,
            digest=record.digest,
            messages=record.messages,
            answer=record.answer,
            prompt_ids=unpack_ids(record.prompt_ids),
            output_ids=unpack_ids(record.output_ids),
            restarts=record.restarts,
            status=record.status,
            created=record.created,
            instructions=record.instructions,
            detail=record.detail,
        )
    except ValueError as error:  # msgspec's errors are ValueErrors, and some quote a value
        raise BadRecord("a turn's record cannot be read") from error


def turns_from_records(records: Sequence[bytes], hidden: Sequence[bytes]) -> list[Turn]:
    """All turns of a conversation, in order. Raises BadRecord."""
    gone = frozenset(map(bytes.decode, hidden))
    turns = parents_first([turn_from_record(record) for record in records])
    return [wordless(turn) if turn.id in gone else turn for turn in turns]


def chain_from_records(records: Sequence[bytes]) -> list[Turn]:
    """The turns from the root to the one whose record is the first. Raises BadRecord."""
    return [turn_from_record(record) for record in reversed(records)]


def conversation_from_fields(fields: Sequence[bytes]) -> Conversation | None:
    """None for no fields. Raises BadRecord."""
    if not fields:
        return None
    try:
        named = {key.decode(): value.decode() for key, value in zip(fields[::2], fields[1::2], strict=True)}
        return Conversation(
            id=named["id"],
            tenant=named["tenant"],
            created=float(named["created"]),
            used=float(named["used"]),
            session=named.get("session"),
            leaf=named.get("leaf"),
            metadata=_metadata.decode(named["metadata"]),
        )
    except (ValueError, KeyError) as error:
        raise BadRecord("a conversation's record cannot be read") from error
