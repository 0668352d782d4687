"""What a client can ask about its conversations besides the next turn: find, list, annotate and delete them."""

from __future__ import annotations

import time
import uuid
from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from sessions.digest import DigestChain
from sessions.items import Item, items_of
from sessions.planting import Seed, grown
from sessions.search import Hit
from sessions.store import NotFound, Store
from sessions.turns import Conversation, Message, Turn, chain_ids, check_metadata

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A stretch of a list.

    more: something follows the last of these.
    """

    values: tuple[T, ...]
    more: bool


class KnownIds(msgspec.Struct, frozen=True):
    """Token ids that a turn of a conversation goes on from."""

    conversation: str
    ids: array[int]


class Catalogue:
    """The conversations of one store, each seen by its tenant only. Every call may raise StoreError; what is not this
    tenant's is NotFound.
    """

    def __init__(
        self, store: Store, *, digests: DigestChain | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self._store = store
        self._digests = digests or DigestChain()
        self._clock = clock

    async def create(
        self, tenant: str, messages: Sequence[Message] = (), metadata: Mapping[str, str] | None = None
    ) -> Conversation:
        """A new conversation of its own name, which begins with these messages. Raises ValueError for metadata beyond
        its limits and for text that is not valid Unicode.
        """
        notes = check_metadata(metadata or {})
        name, root, now = uuid.uuid4().hex, uuid.uuid4().hex, self._clock()
        conversation = Conversation(
            id=name, tenant=tenant, created=now, used=now, session=f"conv_{name}", leaf=root, metadata=notes
        )
        # A conversation always has a turn, so that every later one has a parent to miss once it is deleted.
        turn = Turn(
            id=root,
            conversation=name,
            parent=None,
            digest=self._digests.extend(self._digests.root(tenant), messages),
            messages=tuple(messages),
            answer=None,
            prompt_ids=array("i"),
            output_ids=array("i"),
            restarts=False,
            status="completed",
            created=now,
        )
        await self._store.advance(msgspec.structs.replace(conversation, leaf=None), turn)
        return conversation

    async def plant(
        self, tenant: str, seeds: Sequence[Seed], leaf: int, metadata: Mapping[str, str] | None = None
    ) -> Conversation:
        """A new conversation of its own name that was held elsewhere, with all its branches, or nothing of it.

        seeds: at least one.  leaf: the place among them where the next turn goes on. Raises ValueError as `create`.
        """
        notes = check_metadata(metadata or {})
        name, now = uuid.uuid4().hex, self._clock()
        turns = grown(seeds, name, tenant, self._digests)
        conversation = Conversation(
            id=name,
            tenant=tenant,
            created=now,
            used=now,
            session=f"conv_{name}",
            leaf=turns[leaf].id,
            metadata=notes,
        )
        await self._store.create(conversation, turns)
        return conversation

    async def conversation(self, tenant: str, conversation: str) -> Conversation:
        """One that can be continued by name."""
        found = await self._store.conversation(conversation)
        if found is None or found.tenant != tenant or found.session is None:
            raise NotFound("there is no such conversation")
        return found

    async def conversations(self, tenant: str, after: str | None = None, limit: int = 20) -> Page[Conversation]:
        """Newest first, from the one that follows `after`."""
        found = await self._store.conversations(tenant, after, limit + 1)
        return Page(tuple(found[:limit]), len(found) > limit)

    async def recent(self, tenant: str, after: str | None = None, limit: int = 20) -> Page[Conversation]:
        """The latest used first, from the one that follows `after`."""
        found = await self._store.recent(tenant, after, limit + 1)
        return Page(tuple(found[:limit]), len(found) > limit)

    async def search(self, tenant: str, words: Sequence[str], after: str | None = None, limit: int = 20) -> Page[Hit]:
        """Those of `recent` that hold all of these words; see `sessions.search`."""
        found = await self._store.search(tenant, words, after, limit + 1)
        return Page(tuple(found[:limit]), len(found) > limit)

    async def turns(self, tenant: str, conversation: str) -> tuple[Conversation, list[Turn]]:
        """A conversation and all its turns, none before its parent; of one whose answer was deleted, its place only."""
        found = await self.conversation(tenant, conversation)
        turns = await self._store.turns(conversation)
        if not turns:  # deleted since it was found: there is none without a turn
            raise NotFound("there is no such conversation")
        return found, turns

    async def update(self, tenant: str, conversation: str, metadata: Mapping[str, str]) -> Conversation:
        """Raises ValueError for metadata beyond its limits."""
        notes = check_metadata(metadata)
        await self.conversation(tenant, conversation)
        return await self._store.update(tenant, conversation, notes)

    async def delete(self, tenant: str, conversation: str) -> None:
        """With all its turns, at once: a turn that runs meanwhile cannot be saved any more."""
        await self.conversation(tenant, conversation)
        if not await self._store.delete(tenant, conversation):
            raise NotFound("there is no such conversation")

    async def items(
        self,
        tenant: str,
        conversation: str,
        *,
        after: str | None = None,
        limit: int = 20,
        newest_first: bool = True,
    ) -> Page[Item]:
        """The messages on the path to the leaf, from the one that follows `after` (an item's id)."""
        found = await self.conversation(tenant, conversation)
        chain = await self._store.chain(found.leaf) if found.leaf else []
        items = [item for turn in chain for item in items_of(turn)]
        if newest_first:
            items.reverse()
        start = 0
        if after is not None:
            start = next((place for place, item in enumerate(items, 1) if item.id == after), 0)
            if not start:
                raise NotFound("the item that the list is to go on after is not there")
        return Page(tuple(items[start : start + limit]), len(items) > start + limit)

    async def conversation_ids(self, tenant: str, conversation: str) -> KnownIds:
        """The token ids that its next turn goes on from."""
        return await self._ids(conversation, (await self.conversation(tenant, conversation)).leaf)

    async def session_ids(self, tenant: str, session: str) -> KnownIds:
        """Likewise, of the conversation that a client gave this name."""
        found = await self._store.session(tenant, session)
        if found is None:
            raise NotFound("there is no such session")
        return await self._ids(found.id, found.leaf)

    async def answer_ids(self, tenant: str, turn: str) -> KnownIds:
        """The token ids that a branch at a past answer goes on from."""
        found = await self.answer(tenant, turn)
        return await self._ids(found.conversation, found.id)

    async def _ids(self, conversation: str, turn: str | None) -> KnownIds:
        return KnownIds(conversation, chain_ids(await self._store.chain(turn)) if turn else array("i"))

    async def answer(self, tenant: str, turn: str) -> Turn:
        """A past turn that has an answer."""
        found = await self._store.turn(tenant, turn)
        if found is None or found.answer is None:
            raise NotFound("there is no such answer")
        return found

    async def delete_answer(self, tenant: str, turn: str) -> None:
        """It is not found any more and nothing new branches there. Turns that continue it keep it as their past, and so
        does its conversation; its text is erased when nothing else of a conversation without a name is left, or with
        the conversation.
        """
        await self.answer(tenant, turn)
        if not await self._store.hide(tenant, turn):
            raise NotFound("there is no such answer")
