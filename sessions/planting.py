"""A conversation that was held elsewhere, as turns that can be stored here."""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Sequence

import msgspec

from sessions.digest import DigestChain
from sessions.turns import Message, Status, Turn


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    """A turn to be.

    parent: the place of the one that it continues, among those before it; None at a root.
    created: when it ended, in seconds since the epoch; the rest is as in a `Turn`, which has no token ids here.
    """

    parent: int | None
    messages: tuple[Message, ...]
    answer: str | None
    created: float
    status: Status = "completed"
    instructions: str | None = None
    detail: bytes = b""


def grown(seeds: Sequence[Seed], conversation: str, tenant: str, digests: DigestChain) -> list[Turn]:
    """Turns with new ids, in the order of the seeds. Raises ValueError for text that is not valid Unicode."""
    turns: list[Turn] = []
    for seed in seeds:
        assert seed.parent is None or 0 <= seed.parent < len(turns), "a seed continues one before it"
        parent = None if seed.parent is None else turns[seed.parent]
        turns.append(
            Turn(
                id=uuid.uuid4().hex,
                conversation=conversation,
                parent=None if parent is None else parent.id,
                digest=digests.turn(
                    digests.root(tenant) if parent is None else parent.digest,
                    seed.instructions,
                    seed.messages,
                    seed.answer,
                ),
                messages=seed.messages,
                answer=seed.answer,
                prompt_ids=array("i"),
                output_ids=array("i"),
                restarts=False,
                status=seed.status,
                created=seed.created,
                instructions=seed.instructions,
                detail=seed.detail,
            )
        )
    return turns
