"""Say something in a conversation, and stop what is answered."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chatserve.page.answering import Answering, Asked
from chatserve.page.conversations import named
from chatserve.page.live_turn import LiveTurn, Pace
from chatserve.page.posted import read_posted
from chatserve.page.relay import Relay
from chatserve.page.rooms import Room
from chatserve.page.tree_wire import TurnNotes
from chatserve.page.turn_asks import TurnAsk, read_turn
from chatserve.server.asks import Bounds
from chatserve.server.errors import Conflict, error_body
from chatserve.server.fields import Fields
from chatserve.server.finding import no_conversation, no_response, reading, turn_at
from chatserve.server.limits import ServerLimits
from chatserve.server.live import Live, LiveResponses
from chatserve.server.opening import TurnOpener
from chatserve.server.request_log import used
from chatserve.server.response_asks import CONVERSATION, RESPONSE
from chatserve.server.running import RunningTurns
from chatserve.server.tenants import tenant_of
from chatserve.server.turn import Turn
from chatserve.server.visit import Visit, visit_of
from chatserve.server.wire import Usage
from sessions.manager import SessionManager
from sessions.turns import Message, Status

logger = logging.getLogger(__name__)


class Taken(msgspec.Struct, frozen=True):
    """A turn is under way."""

    id: str
    conversation: str


class Stopped(msgspec.Struct, frozen=True):
    status: Status


class TurnRunning(Conflict):
    """running: the turn that is, as a page knows it; None: it cannot be followed here, or it is only beginning."""

    def __init__(self, running: str | None) -> None:
        super().__init__("A turn of this conversation is running: stop it, or wait until it has ended.")
        self.code = "turn_running"
        self.running = running


class Turns:
    """charge: notes what a turn has used once it has ended, which is after its request did."""

    def __init__(
        self,
        opener: TurnOpener,
        sessions: SessionManager,
        running: RunningTurns,
        relay: Relay,
        answering: Answering,
        live: LiveResponses,
        limits: ServerLimits,
        *,
        model: str,
        charge: Callable[[Visit], None],
    ) -> None:
        self._opener = opener
        self._sessions = sessions
        self._catalogue = sessions.catalogue
        self._running = running
        self._relay = relay
        self._rooms = relay.rooms
        self._answering = answering
        self._live = live
        self._limits = limits
        self._model = model
        self._charge = charge

    def routes(self) -> list[Route]:
        return [
            Route("/page/conversations/{conversation_id}/turns", self.create, methods=["POST"]),
            Route("/page/turns/{response_id}/stop", self.stop, methods=["POST"]),
        ]

    async def create(self, request: Request) -> Response:
        """Begin a turn. It goes on whether or not anybody waits for it."""
        began = time.monotonic()
        bounds = self._opener.bounds()
        body = await read_posted(request, self._limits)
        asking = visit_of(request)
        visit = Visit(asking.id, asking.caller)  # the turn's own: it ends when the turn does
        ask = read_turn(Fields(body), bounds, self._limits.text, visit)
        tenant, name = tenant_of(request, body), named(request)
        with reading(no_conversation(name)):
            await self._catalogue.conversation(tenant, name)
        try:
            turn = await self._begin(tenant, name, ask, bounds, began)
        except TurnRunning as error:
            return _refused(error)
        return _json(Taken(RESPONSE + turn.id, CONVERSATION + name), status=202)

    async def _begin(self, tenant: str, name: str, ask: TurnAsk, bounds: Bounds, began: float) -> Turn:
        """Raises ApiError."""
        room = self._rooms.of(name)
        if room.opening or room.turn is not None:
            raise TurnRunning(room.running)
        room.opening = True
        try:
            return await self._open(room, tenant, name, ask, bounds, began)
        except Conflict:
            raise TurnRunning(room.running) from None
        finally:
            room.opening = False
            self._rooms.let_go(name)

    async def _open(self, room: Room, tenant: str, name: str, ask: TurnAsk, bounds: Bounds, began: float) -> Turn:
        message, pace = Message("user", ask.input), Pace(began)
        notes = _notes(ask, self._model, name)

        def detail(usage: Usage) -> bytes:
            return msgspec.json.encode(msgspec.structs.replace(notes.with_usage(usage), times=pace.times()))

        opening = turn_at(self._sessions, tenant, name, ask.parent, message, ask.instructions)
        turn = await self._opener.going_on(opening, ask.options, bounds, detail)
        live, asked = LiveTurn(turn.id), Asked(tenant, (message,), ask.parent, ask.instructions, ask.settings)
        self._live.add(Live(turn, tenant, notes, index=1))
        room.begin(live, partial(self._live.cancel, tenant, turn.id))
        self._relay.started(name)
        turn.at_end(partial(self._over, room, live, ask.options.visit))
        self._running.spawn(self._run(room, name, turn, live, asked, pace))
        return turn

    async def _run(self, room: Room, name: str, turn: Turn, live: LiveTurn, asked: Asked, pace: Pace) -> None:
        try:
            await self._answering.run(turn, live, room, asked, pace)
        finally:
            room.untold.discard(live)
            self._rooms.let_go(name)

    def _over(self, room: Room, live: LiveTurn, visit: Visit) -> None:
        """It is saved, or given up."""
        room.saved(live)
        self._charge(visit)
        logger.info("%s: its turn has ended%s", visit.id, used(visit))

    async def stop(self, request: Request) -> Response:
        """End it where it is, whichever process makes it; returns when it is saved. One that has ended stays so."""
        await read_posted(request, self._limits)
        tenant, name = tenant_of(request), str(request.path_params["response_id"])
        if not name.startswith(RESPONSE):
            raise no_response(name)
        name = name.removeprefix(RESPONSE)
        live = self._live.find(tenant, name)
        if live is None:
            return _json(Stopped((await self._live.cancelled_elsewhere(self._catalogue, tenant, name)).status))
        await live.turn.cancel()
        return _json(Stopped(live.turn.outcome))


def _notes(ask: TurnAsk, model: str, conversation: str) -> TurnNotes:
    params = ask.options.params
    return TurnNotes(
        created_at=int(time.time()),
        model=model,
        temperature=params.temperature,
        top_p=params.top_p,
        instructions=ask.instructions,
        max_output_tokens=ask.max_output_tokens,
        conversation=conversation,
        settings=ask.settings or None,
    )


def _refused(error: TurnRunning) -> Response:
    """An error like all others, and which turn it is about."""
    detail = msgspec.structs.asdict(error_body(error).error)
    return _json({"error": {**detail, "running": error.running}}, status=error.status)


def _json(value: object, *, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
