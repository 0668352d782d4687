"""Conversations in a Redis server: every call is one script; reads, writes, leases and searches each have a line of
their own. A search is several scripts, between which others have their turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from sessions import redis_scripts as scripts
from sessions.chains import check_chain
from sessions.redis_holds import RedisHolds
from sessions.redis_line import RedisLine
from sessions.redis_records import (
    chain_from_records,
    conversation_from_fields,
    turn_from_record,
    turn_to_record,
    turns_from_records,
)
from sessions.redis_search import search
from sessions.search import Hit
from sessions.store import (
    BadRecord,
    NewerFormat,
    NotFound,
    StoreUnavailable,
    TurnConflict,
    nothing_to_continue,
    session_hold,
)
from sessions.turns import Conversation, Turn

MIGRATIONS: tuple[scripts.Script, ...] = (scripts.LIST_BY_USE,)
"""One script a format version after the first, in order; each brings a store to its version and says so in `format`,
unless another process did. Never edit one that was released: add one. A turn's record has a layout number of its own,
so that records need not be rewritten.
"""
REFUSED = {
    "other": "another turn is already stored as {turn}",
    "refused": "turn {turn} of conversation {conversation} is refused: its parent or its session is wrong",
    "fenced": "conversation {conversation} was held by somebody else before turn {turn} ended",
    "moved": "conversation {conversation} went on from {leaf} before turn {turn} ended",
}


class RedisStore:
    """A `sessions.store.Store` of one server (not a cluster)."""

    def __init__(self, url: str, patience: float, save_patience: float, lease: float) -> None:
        try:
            self._reads = RedisLine(url, patience)
            self._writes = RedisLine(url, save_patience)
            self._leases = RedisLine(url, patience)
            self._searches = RedisLine(url, patience)
        except ValueError:  # whose text may quote the password
            raise StoreUnavailable("the sessions' URL names no Redis server: redis://host:port/db is one") from None
        self.holds = RedisHolds(self._leases, lease)

    @classmethod
    async def open(
        cls, url: str, *, patience: float = 5.0, save_patience: float = 30.0, lease: float = 15.0
    ) -> RedisStore:
        """Open `redis://[[user]:password@]host[:port][/db]`, or `rediss://` with TLS.

        patience: seconds that a call waits for a server that cannot be reached; save_patience: and one that saves.
        lease: seconds after which what a dead process used is free again. Raises NewerFormat, StoreUnavailable.
        """
        store = cls(url, patience, save_patience, lease)
        try:
            await store._migrate()
        except BaseException:
            await store.close()
            raise
        return store

    async def conversation(self, conversation: str) -> Conversation | None:
        found = conversation_from_fields(await self._reads.call(scripts.CONVERSATION, conversation))
        if found is not None and found.id != conversation:
            raise BadRecord(f"conversation {conversation} was asked for, {found.id} was found")
        return found

    async def session(self, tenant: str, session: str) -> Conversation | None:
        return _of_session(
            conversation_from_fields(await self._reads.call(scripts.SESSION, tenant, session)), tenant, session
        )

    async def opened(self, tenant: str, session: str) -> tuple[Conversation, list[Turn]] | None:
        fields, records = await self._reads.call(scripts.OPENED, tenant, session)
        found = _of_session(conversation_from_fields(fields), tenant, session)
        if found is None:
            return None
        return found, _chain(records, found.leaf) if found.leaf else []

    async def conversations(self, tenant: str, after: str | None, limit: int) -> list[Conversation]:
        found = await self._reads.call(scripts.CONVERSATIONS, "named", tenant, after or "", limit)
        return _listed(found)

    async def recent(self, tenant: str, after: str | None, limit: int) -> list[Conversation]:
        return _listed(await self._reads.call(scripts.CONVERSATIONS, "used", tenant, after or "", limit))

    async def search(self, tenant: str, words: Sequence[str], after: str | None, limit: int) -> list[Hit]:
        return await search(self._searches, tenant, words, after, limit)

    async def turns(self, conversation: str) -> list[Turn]:
        return turns_from_records(*await self._reads.call(scripts.TURNS, conversation))

    async def turn(self, tenant: str, turn: str) -> Turn | None:
        record = await self._reads.call(scripts.TURN, tenant, turn)
        if record is None:
            return None
        found = turn_from_record(record)
        if found.id != turn:
            raise BadRecord(f"turn {turn} was asked for, turn {found.id} was found")
        return found

    async def chain(self, turn: str) -> list[Turn]:
        return _chain(await self._reads.call(scripts.CHAIN, turn), turn)

    async def find(self, tenant: str, digests: Sequence[bytes]) -> list[Turn]:
        if not digests:
            return []
        turns = chain_from_records(await self._reads.call(scripts.FIND, tenant, *digests))
        if turns:
            check_chain(turns, turns[-1].id)
        return turns

    async def create(self, conversation: Conversation, turns: Sequence[Turn]) -> None:
        assert conversation.session is not None
        planted: list[bytes | str] = []
        for turn in turns:
            planted += (turn.id, turn.parent or "", turn.digest, turn_to_record(turn))
        outcome = await self._writes.call(
            scripts.CREATE,
            conversation.id,
            conversation.tenant,
            conversation.session,
            repr(conversation.created),
            repr(conversation.used),
            msgspec.json.encode(conversation.metadata),
            conversation.leaf or "",
            1 + len(MIGRATIONS),
            *planted,
        )
        if outcome not in (b"saved", b"same"):
            raise TurnConflict(f"conversation {conversation.id} is refused: one of its ids names another")

    async def add(self, conversation: Conversation, turn: Turn) -> None:
        await self._save(conversation, turn, advances=False, fence=0)

    async def advance(self, conversation: Conversation, turn: Turn, fence: int = 0) -> None:
        await self._save(conversation, turn, advances=True, fence=fence)

    async def update(self, tenant: str, conversation: str, metadata: Mapping[str, str]) -> Conversation:
        fields = await self._writes.call(scripts.UPDATE, tenant, conversation, msgspec.json.encode(metadata))
        found = conversation_from_fields(fields)
        if found is None:
            raise NotFound("there is no such conversation")
        return found

    async def delete(self, tenant: str, conversation: str) -> bool:
        return bool(await self._writes.call(scripts.DELETE, tenant, conversation))

    async def hide(self, tenant: str, turn: str) -> bool:
        return bool(await self._writes.call(scripts.HIDE, tenant, turn))

    async def idle(self, before: float, skip: Collection[str], limit: int) -> list[str]:
        found = await self._reads.call(scripts.IDLE, repr(before), limit + len(skip))
        return [name for name in map(bytes.decode, found) if name not in skip][:limit]

    async def expire(self, before: float, conversations: Sequence[str]) -> int:
        return int(await self._writes.call(scripts.EXPIRE, repr(before), *conversations))

    async def close(self) -> None:
        await self.holds.close()
        for line in (self._reads, self._writes, self._leases, self._searches):
            await line.close()

    async def _migrate(self) -> None:
        known = 1 + len(MIGRATIONS)
        version = int(await self._reads.call(scripts.FORMAT, known))
        if version > known:
            raise NewerFormat("the session server", version, known)
        for migration in MIGRATIONS[version - 1 :]:
            await self._writes.call(migration)

    async def _save(self, conversation: Conversation, turn: Turn, *, advances: bool, fence: int) -> None:
        assert turn.conversation == conversation.id, "a turn is saved with its own conversation"
        session = conversation.session
        outcome = await self._writes.call(
            scripts.SAVE,
            conversation.id,
            conversation.tenant,
            session or "",
            repr(conversation.created),
            repr(conversation.used),
            msgspec.json.encode(conversation.metadata),
            turn.id,
            turn.parent or "",
            turn.digest,
            turn_to_record(turn),
            repr(turn.created),
            int(advances),
            fence,
            "" if session is None else session_hold(conversation.tenant, session),
            1 + len(MIGRATIONS),
            conversation.leaf or "",
        )
        if outcome == b"gone":
            raise nothing_to_continue(turn)
        if outcome not in (b"saved", b"same"):
            said = REFUSED[outcome.decode()]
            raise TurnConflict(said.format(turn=turn.id, conversation=conversation.id, leaf=conversation.leaf))


def _chain(records: Sequence[bytes], leaf: str) -> list[Turn]:
    turns = chain_from_records(records)
    if not turns:
        raise NotFound(f"there is no turn {leaf}")
    check_chain(turns, leaf)
    return turns


def _of_session(found: Conversation | None, tenant: str, session: str) -> Conversation | None:
    if found is not None and (found.tenant, found.session) != (tenant, session):
        raise BadRecord(f"conversation {found.id} is not that of the session asked for")
    return found


def _listed(found: Sequence[Sequence[bytes]] | None) -> list[Conversation]:
    if found is None:
        raise NotFound("the conversation that the list is to go on after is not there")
    return [each for fields in found if (each := conversation_from_fields(fields)) is not None]
