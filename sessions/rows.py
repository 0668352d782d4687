"""Turns and conversations as SQLite rows, and back. What comes back is checked against what was asked for."""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from sessions.store import BadRecord
from sessions.turns import Conversation, Message, Status, Turn, pack_ids, unpack_ids

TURN_COLUMNS = (
    "id, conversation, parent, digest, messages, answer, prompt_ids, output_ids, restarts, status, created, "
    "answered, instructions, detail"
)
CONVERSATION_COLUMNS = "id, tenant, created, used, session, leaf, metadata"

_messages = msgspec.json.Decoder(tuple[Message, ...])
_metadata = msgspec.json.Decoder(dict[str, str])
_statuses = frozenset(get_args(Status))

Row = tuple[Any, ...]


def turn_to_row(turn: Turn) -> Row:
    """In the order of TURN_COLUMNS."""
    return (
        turn.id,
        turn.conversation,
        turn.parent,
        turn.digest,
        msgspec.json.encode(turn.messages),
        turn.answer or "",
        pack_ids(turn.prompt_ids),
        pack_ids(turn.output_ids),
        int(turn.restarts),
        turn.status,
        turn.created,
        int(turn.answer is not None),
        turn.instructions,
        turn.detail,
    )


def messages_from_row(turn: str, messages: bytes) -> tuple[Message, ...]:
    """Raises BadRecord."""
    try:
        return _messages.decode(messages)
    except ValueError as error:
        raise BadRecord(f"turn {turn} cannot be read: {error}") from error


def turn_from_row(row: Row) -> Turn:
    """Raises BadRecord."""
    (
        name,
        conversation,
        parent,
        digest,
        messages,
        answer,
        prompt_ids,
        output_ids,
        restarts,
        status,
        created,
        answered,
        instructions,
        detail,
    ) = row
    if status not in _statuses:
        raise BadRecord(f"turn {name} has the unknown status {status!r}")
    try:
        return Turn(
            id=name,
            conversation=conversation,
            parent=parent,
            digest=digest,
            messages=_messages.decode(messages),
            answer=answer if answered else None,
            prompt_ids=unpack_ids(prompt_ids),
            output_ids=unpack_ids(output_ids),
            restarts=bool(restarts),
            status=status,
            created=created,
            instructions=instructions,
            detail=detail,
        )
    except ValueError as error:  # msgspec's errors are ValueErrors; neither they nor ours quote the record's text
        raise BadRecord(f"turn {name} cannot be read: {error}") from error


def conversation_from_row(row: Row) -> Conversation:
    """Raises BadRecord."""
    name, tenant, created, used, session, leaf, metadata = row
    try:
        notes = _metadata.decode(metadata)
    except ValueError as error:
        raise BadRecord(f"the metadata of conversation {name} cannot be read: {error}") from error
    return Conversation(id=name, tenant=tenant, created=created, used=used, session=session, leaf=leaf, metadata=notes)


def conversation_to_row(conversation: Conversation) -> Row:
    """In the order of CONVERSATION_COLUMNS."""
    return (
        conversation.id,
        conversation.tenant,
        conversation.created,
        conversation.used,
        conversation.session,
        conversation.leaf,
        msgspec.json.encode(conversation.metadata).decode(),
    )
