"""A turn while it runs: what came before it, what is new, and how it is saved."""

from __future__ import annotations

import asyncio
import uuid
from array import array
from collections.abc import Awaitable, Callable, Iterable, Sequence

from sessions.digest import DigestChain
from sessions.past import Past
from sessions.turns import Conversation, Message, Status, Turn

Write = Callable[[Conversation, Turn], Awaitable[None]]
Record = Callable[[int], None]


class OpenTurn:
    """One turn between its opening and its end.

    turn_id: the id it will be saved under.
    conversation: as it was found; one that is new is stored together with this turn.
    history: the earlier messages whose token ids are known, answers included; the instructions first.
    history_ids: the token ids of history, int32, up to the last kept token of the last answer, without its
        end token.
    new_messages: what is to be encoded for this turn: what it adds, after what earlier turns added without an answer;
        and everything, instructions first, where these differ from those that the history's ids were made with.
    """

    def __init__(
        self,
        conversation: Conversation,
        chain: Sequence[Turn],
        new_messages: Sequence[Message],
        *,
        digests: DigestChain,
        write: Write,
        clock: Callable[[], float],
        instructions: str | None = None,
    ) -> None:
        self.turn_id = uuid.uuid4().hex
        self.conversation = conversation
        prompt = Past(chain, instructions)
        self.history = prompt.known
        self.history_ids = prompt.ids
        self.new_messages = (*prompt.pending, *new_messages)
        self._anew = prompt.anew
        self._instructions = instructions
        self._added = tuple(new_messages)
        self._parent = chain[-1] if chain else None
        # Hashed now, not when the turn is saved: text that cannot be stored is refused before an answer is
        # computed.
        before = self._parent.digest if self._parent else digests.root(conversation.tenant)
        self._asked = digests.turn(before, instructions, self._added)
        self._digests = digests
        self._write = write
        self._clock = clock
        self._turn: Turn | None = None
        self._writing: asyncio.Task[None] | None = None

    async def save(
        self,
        prompt_ids: Iterable[int],
        output_ids: Iterable[int],
        answer: str,
        status: Status,
        record: Record | None = None,
        *,
        detail: bytes = b"",
    ) -> Turn:
        """Save what the user saw, whole, whatever happens to the caller; returns when it is stored.

        prompt_ids: the ids that follow `history_ids`, up to where the answer begins.
        output_ids: the ids of the answer that were kept, without the end token.
        record: called once, at once, with the number of output ids kept, whether or not the store then takes
            the turn.
        detail: JSON that is kept with the answer.

        The first call decides what is saved: a later one (a cancelled caller's clean-up, a second try after
        StoreUnavailable) only makes sure that it is stored. A cancellation that arrives meanwhile is raised
        when it is. Raises StoreError.
        """
        ended = self._ended(prompt_ids, output_ids, answer, status, restarts=self._anew, detail=detail)
        return await self._save(ended, record)

    async def save_whole(
        self,
        whole_ids: Iterable[int],
        output_ids: Iterable[int],
        answer: str,
        status: Status,
        record: Record | None = None,
        *,
        detail: bytes = b"",
    ) -> Turn:
        """Like `save`, for a prompt that does not begin with `history_ids`: `whole_ids` is all of it, and
        takes the place of the ids of every earlier turn for those that follow.
        """
        ended = self._ended(whole_ids, output_ids, answer, status, restarts=True, detail=detail)
        return await self._save(ended, record)

    async def save_messages(self) -> Turn:
        """Save what the turn adds, with no answer."""
        return await self._save(self._ended((), (), None, "completed", restarts=False, detail=b""), None)

    def _ended(
        self,
        prompt: Iterable[int],
        output: Iterable[int],
        answer: str | None,
        status: Status,
        *,
        restarts: bool,
        detail: bytes,
    ) -> Turn:
        said = () if answer is None else (Message("assistant", answer),)
        return Turn(
            id=self.turn_id,
            conversation=self.conversation.id,
            parent=self._parent.id if self._parent else None,
            digest=self._digests.extend(self._asked, said),
            messages=self._added,
            answer=answer,
            prompt_ids=array("i", prompt),
            output_ids=array("i", output),
            restarts=restarts,
            status=status,
            created=self._clock(),
            instructions=self._instructions,
            detail=detail,
        )

    async def _save(self, ended: Turn, record: Record | None) -> Turn:
        first = self._turn is None
        turn = self._turn = self._turn or ended
        try:
            if first and record is not None:
                record(len(turn.output_ids))
        finally:
            await self._store(turn)
        return turn

    async def _store(self, turn: Turn) -> None:
        if self._writing is None or _failed(self._writing):
            self._writing = asyncio.ensure_future(self._write_whole(turn))
        await _finish(self._writing)

    async def _write_whole(self, turn: Turn) -> None:
        await self._write(self.conversation, turn)


def _failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _finish(task: asyncio.Task[None]) -> None:
    """Wait for the task through any cancellation, which is raised afterwards. A task that failed raises its
    own error
    instead: that something was not stored must not go unsaid.
    """
    interruption: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            interruption = error
    task.result()
    if interruption is not None:
        raise interruption
