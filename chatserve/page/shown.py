"""Which words of a conversation are shown: what a client has taken out of its path is read by nobody again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from chatserve.server.removal import remaining_items, removes
from sessions.catalogue import Catalogue, Item, items_of
from sessions.turns import Conversation, Turn

_ALL: Final = 2**31


async def shown_tree(catalogue: Catalogue, tenant: str, conversation: str) -> tuple[Conversation, list[Turn]]:
    """A conversation and all its turns, none before its parent, without what was deleted. Raises StoreError.

    What was taken out of the path to the leaf is gone; a branch beside it that never had the note of that keeps it.
    """
    found, turns = await catalogue.turns(tenant, conversation)
    if not any(removes(turn.messages) for turn in turns):
        return found, turns
    # A note counts back over all that was ever said on its path, deleted answers included.
    path = (await catalogue.items(tenant, conversation, limit=_ALL, newest_first=False)).values
    return found, without_removed(turns, path)


def without_removed(turns: Sequence[Turn], path: Sequence[Item]) -> list[Turn]:
    """path: every item from the beginning to the leaf."""
    gone = {item.id for item in path} - {item.id for item in remaining_items(path)}
    return [_without(turn, gone) for turn in turns]


def _without(turn: Turn, gone: set[str]) -> Turn:
    left = [item for item in items_of(turn) if item.id not in gone and not removes((item.message,))]
    answered = turn.answer is not None and left[-1:] == items_of(turn)[-1:]
    messages = tuple(item.message for item in (left[:-1] if answered else left))
    return msgspec.structs.replace(turn, messages=messages, answer=turn.answer if answered else None)
