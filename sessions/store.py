"""Where conversations are kept: the protocol that every store obeys, and the errors it raises.

StoreError
 +- NotFound           the conversation or the turn to continue is not (or no longer) there
 +- TurnConflict       somebody else's turn got there first, or one id names two turns
 +- StoreUnavailable   the store cannot be reached, is locked too long, is full or broken
 |   +- StoreClosed
 +- NewerFormat        written by a newer version of this program
 +- BadRecord          a record is not what its place says it is
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from sessions.search import Hit
from sessions.turns import Conversation, Turn


class StoreError(Exception):
    """Anything that a store can raise. Messages name records by their own ids, never by text from users."""


class NotFound(StoreError):
    """What was asked for, or was to be continued, does not exist (any more)."""


class TurnConflict(StoreError):
    """The turn would overwrite another one; nothing was stored."""


class StoreUnavailable(StoreError):
    """The store does not answer; nothing was stored, and trying again later may help."""


class StoreClosed(StoreUnavailable):
    """The store was closed by its owner."""


class NewerFormat(StoreError):
    """The stored format is newer than this program."""

    def __init__(self, where: str, found: int, known: int) -> None:
        super().__init__(
            f"{where} has format version {found}, this program knows versions up to {known}: "
            "upgrade the program, or choose another place for its sessions"
        )
        self.found = found
        self.known = known


class BadRecord(StoreError):
    """A record does not carry the id it was asked by, or cannot be read."""


def nothing_to_continue(turn: Turn) -> NotFound:
    """Why a turn cannot be stored whose past has gone."""
    past = "" if turn.parent is None else f"turn {turn.parent} of "
    return NotFound(f"{past}conversation {turn.conversation} is gone")


def session_hold(tenant: str, session: str) -> str:
    """Under which name a session's turns are held apart."""
    return f"{len(tenant)} {tenant} {session}"


class Holds(Protocol):
    """Who uses what just now, among all processes that share a store. A process that dies lets go."""

    def alone(self, name: str, *, wait: bool = True) -> AbstractAsyncContextManager[int]:
        """Use what only one may use at a time; waits for other processes, or raises SessionBusy at once. Within one,
        the callers see to it that only one comes. Gives the fence to save with: a store whose holds can be lost refuses
        one that came before another.
        """

    async def held(self, names: Sequence[str]) -> set[str]:
        """Those of the names that somebody uses alone just now, here or in another process: a look that waits for
        nobody.
        """

    def keep(self, name: str) -> AbstractAsyncContextManager[None]:
        """Use what others may use too, and nobody may remove."""

    def unused(self, names: Sequence[str]) -> AbstractAsyncContextManager[list[str]]:
        """Those of the names that nobody keeps; until the end of the block, nobody can."""

    def __len__(self) -> int:
        """How many names this process uses."""


class Store(Protocol):
    """Every call is one transaction: it happens whole or not at all, and a call whose caller is cancelled is
    never half done. Every call may raise StoreUnavailable, and every call that reads, BadRecord.

    holds: what is in use, among all processes of this store.
    """

    @property
    def holds(self) -> Holds: ...

    async def conversation(self, conversation: str) -> Conversation | None:
        """The conversation of this id; None when there is none."""

    async def session(self, tenant: str, session: str) -> Conversation | None:
        """The conversation that a client gave this name; None when there is none."""

    async def opened(self, tenant: str, session: str) -> tuple[Conversation, list[Turn]] | None:
        """Like `session`, with the turns from the root to its leaf, all as they are at one moment."""

    async def chain(self, turn: str) -> list[Turn]:
        """The turns from the root to this one. Raises NotFound."""

    async def find(self, tenant: str, digests: Sequence[bytes]) -> list[Turn]:
        """The chain of the newest turn of the first of these digests that is known to this tenant; empty when
        none is.
        """

    async def turn(self, tenant: str, turn: str) -> Turn | None:
        """One turn of this tenant; None when there is none, or it was hidden."""

    async def turns(self, conversation: str) -> list[Turn]:
        """All turns of a conversation, none before its parent and else in the order of their ends; empty when there is
        no such conversation. Of a hidden one only its place is told: see `sessions.turns.wordless`.
        """

    async def conversations(self, tenant: str, after: str | None, limit: int) -> list[Conversation]:
        """This tenant's conversations that have a session, newest first, those that follow `after` in this order.
        Raises NotFound when `after` is none of them.
        """

    async def recent(self, tenant: str, after: str | None, limit: int) -> list[Conversation]:
        """The same ones in the order of their last use, the latest first."""

    async def search(self, tenant: str, words: Sequence[str], after: str | None, limit: int) -> list[Hit]:
        """Those of `recent` in which every word occurs: in the title, or in what was said in any turn that was not
        hidden. See `sessions.search`.
        """

    async def update(self, tenant: str, conversation: str, metadata: Mapping[str, str]) -> Conversation:
        """Put other metadata in the place of the old. Raises NotFound."""

    async def delete(self, tenant: str, conversation: str) -> bool:
        """Delete a conversation with all its turns; False when this tenant has none of this id."""

    async def hide(self, tenant: str, turn: str) -> bool:
        """Take a turn out of `turn`; what continues it keeps it as its past. A conversation without a session whose
        turns are all hidden counts as idle from now on. False when there is no such turn to be seen.
        """

    async def create(self, conversation: Conversation, turns: Sequence[Turn]) -> None:
        """Store a new conversation with all of its turns, none before its parent, at once; `leaf` is one of them.

        The same again changes nothing. Raises TurnConflict when an id or the session is another's already.
        """

    async def add(self, conversation: Conversation, turn: Turn) -> None:
        """Store a turn, and its conversation with its first turn. The session's leaf stays where it is.

        The same turn again changes nothing. Raises NotFound when the parent is gone, TurnConflict when
        another turn has this id or another conversation this session.
        """

    async def advance(self, conversation: Conversation, turn: Turn, fence: int = 0) -> None:
        """Like `add`, and the turn becomes its session's leaf, whichever turn of the tree it continues. Raises
        TurnConflict too when the leaf is not the one that `conversation` carries any more, or when somebody else held
        the session alone after this fence was given; NotFound too when a conversation that has a leaf is gone.
        """

    async def idle(self, before: float, skip: Collection[str], limit: int) -> list[str]:
        """Up to `limit` conversations without a session last used before then, except those to skip, the longest
        idle first.
        """

    async def expire(self, before: float, conversations: Sequence[str]) -> int:
        """Delete those of these that are still idle since before then. Returns how many."""

    async def close(self) -> None:
        """Finish what was begun and let go. Every later call raises StoreClosed; closing twice is harmless."""
