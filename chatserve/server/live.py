"""Responses that are being made, by their ids: in this process, and by asking in the other ones of this server."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from chatserve.server.control import Cancel, Found, OfResponses, Wanted
from chatserve.server.errors import Missing
from chatserve.server.finding import no_response, reading
from chatserve.server.response_wire import Notes, Response, answer_item, response
from chatserve.server.turn import Turn
from sessions.catalogue import Catalogue
from sessions.turns import Turn as StoredTurn

_ELSEWHERE_SECONDS, _LOOK_SECONDS = 2.0, 0.02
"""How long a response that another process cancels is looked for, and how often."""
_ANSWER_SECONDS = 0.25
"""How long the others get to say that they make one."""


@dataclass(frozen=True, slots=True)
class Live:
    """One of them. index: the answer's place among its turn's messages.  over: it is saved, or given up."""

    turn: Turn
    tenant: str
    notes: Notes
    index: int
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def response(self) -> Response:
        """As far as it has come."""
        item = answer_item(self.turn.id, self.index, self.turn.text, "in_progress")
        return response(self.turn.id, self.notes, "in_progress", (item,))


class LiveResponses:
    """tell_others: the other processes of this server, each of which is to `hear` it; None: there are none."""

    def __init__(self, tell_others: Callable[[OfResponses], None] | None = None) -> None:
        self.tell_others = tell_others
        self._live: dict[str, Live] = {}
        self._wanted: dict[str, asyncio.Future[bytes]] = {}
        self._cancelling: set[asyncio.Task[None]] = set()

    def add(self, live: Live) -> None:
        """Until it is saved."""
        self._live[live.turn.id] = live
        live.turn.at_end(lambda: self._remove(live))

    def find(self, tenant: str, turn: str) -> Live | None:
        live = self._live.get(turn)
        return live if live is not None and live.tenant == tenant else None

    async def ended(self, tenant: str, turn: str) -> None:
        """Return when a response is not being made here any more, at once where it is not: whoever has just left one
        may go on from it before this process has noticed, and saved what was sent.
        """
        live = self.find(tenant, turn)
        if live is not None:
            await live.over.wait()

    def cancel(self, tenant: str, turn: str) -> None:
        """Whoever asks looks for it in the store; nothing where it is not made here."""
        live = self.find(tenant, turn)
        if live is not None:
            task = asyncio.create_task(live.turn.cancel())
            self._cancelling.add(task)
            task.add_done_callback(self._cancelling.discard)

    def hear(self, said: OfResponses) -> None:
        """From another process."""
        match said:
            case Cancel():
                self.cancel(said.tenant, said.turn)
            case Wanted():
                live = self.find(said.tenant, said.turn)
                if live is not None and self.tell_others is not None:
                    shown = msgspec.json.encode(live.response()).decode()
                    self.tell_others(Found(ticket=said.ticket, response=shown))
            case Found():
                wanted = self._wanted.pop(said.ticket, None)
                if wanted is not None:
                    wanted.set_result(said.response.encode())

    async def made_elsewhere(self, tenant: str, turn: str) -> bytes | None:
        """A response as far as it has come, as JSON, from the other process that makes it; None where none does."""
        if self.tell_others is None:
            return None
        ticket = uuid.uuid4().hex
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._wanted[ticket] = answer
        self.tell_others(Wanted(ticket=ticket, tenant=tenant, turn=turn))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            return None
        finally:
            self._wanted.pop(ticket, None)

    async def ended_elsewhere(self, tenant: str, turn: str) -> None:
        """Return when no other process makes this response any more: it is in the store then, if it ever was one."""
        while await self.made_elsewhere(tenant, turn) is not None:
            await asyncio.sleep(_LOOK_SECONDS)

    async def cancelled_elsewhere(self, catalogue: Catalogue, tenant: str, turn: str) -> StoredTurn:
        """One that has ended; or that another process makes, which is told so and given a moment. Raises ApiError."""
        deadline = None
        while True:
            try:
                with reading(no_response(turn)):
                    return await catalogue.answer(tenant, turn)
            except Missing:
                if self.tell_others is None or (deadline is not None and time.monotonic() > deadline):
                    raise
            if deadline is None:
                deadline = time.monotonic() + _ELSEWHERE_SECONDS
                self.tell_others(Cancel(tenant=tenant, turn=turn))
            await asyncio.sleep(_LOOK_SECONDS)

    def _remove(self, live: Live) -> None:
        del self._live[live.turn.id]
        live.over.set()
