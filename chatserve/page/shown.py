"""Which words of a conversation are shown: what a client has taken out of its path is read by nobody again."""

from __future__ import annotations

from typing import Final

from sessions.catalogue import Catalogue
from sessions.removal import removes, without_removed
from sessions.turns import Conversation, Turn

_ALL: Final = 2**31


async def shown_tree(catalogue: Catalogue, tenant: str, conversation: str) -> tuple[Conversation, list[Turn]]:
    """A conversation and all its turns, none before its parent, without what was deleted. Raises StoreError."""
    found, turns = await catalogue.turns(tenant, conversation)
    if not any(removes(turn.messages) for turn in turns):
        return found, turns
    # A note counts back over all that was ever said on its path, deleted answers included.
    path = (await catalogue.items(tenant, conversation, limit=_ALL, newest_first=False)).values
    return found, without_removed(turns, path)
