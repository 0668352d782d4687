"""Opens turns: finds what came before them, keeps the turns of one session apart, and tidies up.

A turn that names a session continues the session's leaf and moves it; such turns run one after another. A
stateless turn carries all its messages and continues the longest chain of turns that they begin with,
wherever that is: two that continue the same answer make a branch, nobody waits, and no session's leaf moves.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from sessions.catalogue import Catalogue
from sessions.digest import DigestChain
from sessions.gate import Gate
from sessions.open_turn import OpenTurn, Write
from sessions.store import NotFound, Store, session_hold
from sessions.turns import Conversation, Message, Turn, chain_messages

EXPIRE_BATCH = 64


class SessionManager:
    """The turns of one store, which other processes may use too.

    max_waiting: turns that may wait here for one session's running turn, wherever that runs.
    clock: seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        *,
        max_waiting: int = 8,
        digests: DigestChain | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._digests = digests or DigestChain()
        self._clock = clock
        self._gate = Gate(max_waiting)
        self.catalogue = Catalogue(store, digests=self._digests, clock=clock)

    @asynccontextmanager
    async def session(self, tenant: str, session: str, messages: Sequence[Message]) -> AsyncIterator[OpenTurn]:
        """Open the next turn of a session, which begins with its first saved turn.

        messages: only the new ones. Waits for the session's earlier turns, in the order of arrival. Raises
        SessionBusy when too many already wait, StoreError, and ValueError for text that is not valid Unicode.
        """
        async with self._gate.enter((tenant, session)), self._alone(tenant, session) as fence:
            found = await self._store.opened(tenant, session)
            conversation, chain = found or (self._begin(tenant, session), [])
            yield self._turn(conversation, chain, messages, partial(self._store.advance, fence=fence))

    @asynccontextmanager
    async def conversation(
        self,
        tenant: str,
        conversation: str,
        messages: Sequence[Message],
        *,
        instructions: str | None = None,
        stored: bool = True,
    ) -> AsyncIterator[OpenTurn]:
        """Open the next turn of a conversation by its id; otherwise like `session`. Raises NotFound too.

        instructions: a system message before all others, in this turn's prompt only.
        stored: False leaves nothing of the turn.
        """
        async with self._held(tenant, conversation, wait=True) as (now, chain, fence):
            write = partial(self._store.advance, fence=fence) if stored else leave_nothing
            yield self._turn(now, chain, messages, write, instructions)

    @asynccontextmanager
    async def turn_at(
        self,
        tenant: str,
        conversation: str,
        parent: str | None,
        messages: Sequence[Message],
        *,
        instructions: str | None = None,
        wait: bool = True,
    ) -> AsyncIterator[OpenTurn]:
        """Open a turn that goes on from any turn of a conversation and becomes its leaf: what came after `parent`
        stays, as a branch. Otherwise like `conversation`.

        parent: None is where the conversation begins, after what it was created with. One of another conversation, or
        one that was hidden and is not the leaf, is NotFound.
        wait: False raises SessionBusy at once where a turn runs, in whatever process.
        """
        async with self._held(tenant, conversation, wait=wait) as (now, chain, fence):
            path = await self._path(now, chain, parent)
            yield self._turn(now, path, messages, partial(self._store.advance, fence=fence), instructions)

    async def running(self, tenant: str, conversations: Iterable[Conversation]) -> set[str]:
        """The ids of those in which a turn runs just now, or waits to, in whatever process. Waits for nobody."""
        names = {session_hold(tenant, each.session): each.id for each in conversations if each.session is not None}
        return {names[held] for held in await self._store.holds.held(tuple(names))}

    @asynccontextmanager
    async def branch(
        self,
        tenant: str,
        parent: str | None,
        messages: Sequence[Message],
        *,
        instructions: str | None = None,
        stored: bool = True,
    ) -> AsyncIterator[OpenTurn]:
        """Open a turn that continues a past one, whatever continued that before, or nothing. It waits for nobody and
        moves no leaf. Raises NotFound too; `instructions` and `stored` as in `conversation`.
        """
        write = self._store.add if stored else leave_nothing
        if parent is None:
            yield self._turn(self._begin(tenant, None), [], messages, write, instructions)
            return
        async with self._keep((await self._visible(tenant, parent)).conversation):
            past = await self._visible(tenant, parent)
            conversation = await self._still_there(tenant, [past])
            if conversation is None:
                raise NotFound("there is no such answer")
            yield self._turn(conversation, await self._store.chain(parent), messages, write, instructions)

    @asynccontextmanager
    async def _held(
        self, tenant: str, conversation: str, *, wait: bool
    ) -> AsyncIterator[tuple[Conversation, list[Turn], int]]:
        """A conversation as it is while nobody else may move its leaf, its turns from the root to that leaf, and the
        fence to save with.
        """
        session = (await self.catalogue.conversation(tenant, conversation)).session
        assert session is not None, "the catalogue shows only what has a name"
        async with (
            self._gate.enter((tenant, session), wait=wait),
            self._store.holds.alone(session_hold(tenant, session), wait=wait) as fence,
        ):
            found = await self._store.opened(tenant, session)
            if found is None or found[0].id != conversation:
                raise NotFound("the conversation was deleted while its turn waited")
            yield *found, fence

    async def _path(self, conversation: Conversation, chain: list[Turn], parent: str | None) -> list[Turn]:
        """From the conversation's beginning to a turn that can be gone on from.

        chain: from there to its leaf.
        """
        if parent is None:
            return chain[:1] if chain and chain[0].answer is None else []
        if parent == conversation.leaf:
            return chain
        found = await self._store.turn(conversation.tenant, parent)
        if found is None or found.conversation != conversation.id:
            raise NotFound("there is no such turn in the conversation")
        return await self._store.chain(parent)

    async def _visible(self, tenant: str, turn: str) -> Turn:
        found = await self._store.turn(tenant, turn)
        if found is None:
            raise NotFound("there is no such answer")
        return found

    @asynccontextmanager
    async def stateless(self, tenant: str, messages: Sequence[Message]) -> AsyncIterator[OpenTurn]:
        """Open a turn by all of its messages; those that are not known already are its new ones, the last
        always.

        Raises StoreError, and ValueError for text that is not valid Unicode.
        """
        chain = await self._longest_known(tenant, messages)
        async with self._keep(chain[-1].conversation if chain else None):
            conversation = await self._still_there(tenant, chain)
            if conversation is None:
                conversation, chain = self._begin(tenant, None), []
            new = messages[len(chain_messages(chain)) :]
            yield self._turn(conversation, chain, new, self._store.add)

    async def expire(self, older_than: float) -> int:
        """Delete stateless conversations idle for longer than so many seconds; returns how many. Sessions,
        with all that branches off them, and conversations with an open turn are kept. Small steps, between
        which turns are saved.
        """
        before = self._clock() - older_than
        total, in_use = 0, set[str]()
        while idle := await self._store.idle(before, in_use, EXPIRE_BATCH):
            async with self._store.holds.unused(idle) as unused:
                total += await self._store.expire(before, unused)
            in_use.update(set(idle) - set(unused))
        return total

    async def _longest_known(self, tenant: str, messages: Sequence[Message]) -> list[Turn]:
        """The chain of the longest prefix, ending in an answer, that was saved before; empty when there is
        none.
        """
        digests = self._digests.prefixes(tenant, messages)
        while chain := await self._store.find(tenant, digests):
            known = chain_messages(chain)
            told = any(turn.instructions is not None for turn in chain)  # what this request does not repeat
            if not told and len(known) < len(messages) and known == tuple(messages[: len(known)]):  # no hash decides
                return chain
            digests = digests[digests.index(chain[-1].digest) + 1 :]
        return []

    async def _still_there(self, tenant: str, chain: Sequence[Turn]) -> Conversation | None:
        """The chain's conversation, if it did not expire before it was kept and is this tenant's."""
        if not chain:
            return None
        conversation = await self._store.conversation(chain[-1].conversation)
        return conversation if conversation is not None and conversation.tenant == tenant else None

    @asynccontextmanager
    async def _keep(self, conversation: str | None) -> AsyncIterator[None]:
        """Save a conversation from expiring. It is kept first and looked for second: of an `expire` that ran
        before the first, the second sees the outcome; one that runs after it passes the conversation by.
        """
        if conversation is None:
            yield
            return
        async with self._store.holds.keep(conversation):
            yield

    def _alone(self, tenant: str, session: str) -> AbstractAsyncContextManager[int]:
        """The gate orders the turns of this process; among processes only one may have a session."""
        return self._store.holds.alone(session_hold(tenant, session))

    def _begin(self, tenant: str, session: str | None) -> Conversation:
        now = self._clock()
        return Conversation(id=uuid.uuid4().hex, tenant=tenant, session=session, created=now, used=now)

    def _turn(
        self,
        conversation: Conversation,
        chain: Sequence[Turn],
        new: Sequence[Message],
        write: Write,
        instructions: str | None = None,
    ) -> OpenTurn:
        return OpenTurn(
            conversation,
            chain,
            new,
            digests=self._digests,
            write=write,
            clock=self._clock,
            instructions=instructions,
        )


async def leave_nothing(_conversation: Conversation, _turn: Turn) -> None:
    """Where a turn goes that is not to be stored."""
