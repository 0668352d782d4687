"""A conversation and its turns, as small as they can be."""

from __future__ import annotations

from array import array

from sessions.turns import Conversation, Message, Turn


def conversation(name: str = "c", session: str | None = "s", *, leaf: str | None = None) -> Conversation:
    return Conversation(id=name, tenant="t", created=1.0, used=1.0, session=session, leaf=leaf)


def turn(name: str, parent: str | None = None, *, where: str = "c", answer: str = "a") -> Turn:
    return Turn(
        id=name,
        conversation=where,
        parent=parent,
        digest=name.encode(),
        messages=(Message("user", name),),
        answer=answer,
        prompt_ids=array("i", [1]),
        output_ids=array("i", [2]),
        restarts=False,
        status="completed",
        created=2.0,
    )
