"""/v1/responses: an answer that is kept, and that any later one can go on from."""

from __future__ import annotations

import time
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response as Reply

from chatserve.server.asks import Bounds
from chatserve.server.body import read_json
from chatserve.server.disconnect import until_disconnect
from chatserve.server.errors import BadRequest, Missing
from chatserve.server.fields import Fields
from chatserve.server.finding import no_response, reading
from chatserve.server.item_wire import item_list, message_item
from chatserve.server.lengths import check_length
from chatserve.server.limits import ServerLimits
from chatserve.server.live import Live, LiveResponses
from chatserve.server.models import ServedModel
from chatserve.server.opening import TurnOpener
from chatserve.server.paging import read_stretch, stretch_of
from chatserve.server.recording import Detail
from chatserve.server.response_asks import RESPONSE, ResponseAsk, read_response
from chatserve.server.response_frames import ResponseFrames
from chatserve.server.response_wire import Notes, ended_response, stored_response
from chatserve.server.streaming import TurnStream
from chatserve.server.tenants import tenant_of
from chatserve.server.turn import Turn as LiveTurn
from chatserve.server.visit import visit_of
from sessions.catalogue import Catalogue
from sessions.turns import Turn

_notes: Final = msgspec.json.Decoder(Notes)


class Responses:
    """Past ones are known to every process of one store; those that are being made, to one, which others can ask."""

    def __init__(
        self, opener: TurnOpener, catalogue: Catalogue, model: ServedModel, limits: ServerLimits, live: LiveResponses
    ) -> None:
        self._opener = opener
        self._catalogue = catalogue
        self._model = model
        self._limits = limits
        self._live = live

    async def create(self, request: Request) -> Reply:
        bounds = self._opener.bounds()
        fields = Fields(await read_json(request, self._limits))
        self._model.check(fields)
        ask = read_response(fields, bounds, self._limits.messages, visit_of(request))
        characters = sum(len(message.content) for message in ask.messages) + len(ask.instructions or "")
        check_length(characters, self._limits.text, "input")
        live = await until_disconnect(request, self._begin(ask, bounds))
        if ask.options.stream:
            return TurnStream(live.turn, ResponseFrames(live.turn, live.notes, live.index), self._limits)
        text = await until_disconnect(request, live.turn.complete())
        notes = live.notes.with_usage(live.turn.usage)
        return _json(ended_response(live.turn.id, notes, live.index, text, live.turn.outcome))

    async def get(self, request: Request) -> Reply:
        if request.query_params.get("stream", "false").lower() == "true":
            raise BadRequest(
                "stream is not supported by this server for a response that was begun before. Leave it out.",
                param="stream",
                code="unsupported_parameter",
            )
        tenant, name = tenant_of(request), _named(request)
        live = self._live.find(tenant, name)
        if live is not None:
            return _json(live.response())
        try:
            return _json(stored_response(*await self._stored(request)))
        except Missing:
            made = await self._live.made_elsewhere(tenant, name)
        if made is not None:
            return Reply(made, media_type="application/json")
        return _json(stored_response(*await self._stored(request)))  # where it has ended meanwhile

    async def delete(self, request: Request) -> Reply:
        """Nothing can go on from it any more; what went on already keeps it as its past."""
        turn, _ = await self._stored(request)
        with reading(no_response(turn.id)):
            await self._catalogue.delete_answer(tenant_of(request), turn.id)
        return _json({"id": RESPONSE + turn.id, "object": "response", "deleted": True})

    async def cancel(self, request: Request) -> Reply:
        """Ends one that is being made: it is saved as what was sent of it. One that has ended stays as it is."""
        live = self._live.find(tenant_of(request), _named(request))
        if live is None:
            cancelled = await self._live.cancelled_elsewhere(self._catalogue, tenant_of(request), _named(request))
            return _json(stored_response(cancelled, _notes_of(cancelled)))
        await live.turn.cancel()
        notes = live.notes.with_usage(live.turn.usage)
        return _json(ended_response(live.turn.id, notes, live.index, live.turn.text, live.turn.outcome))

    async def input_items(self, request: Request) -> Reply:
        """What this response was given, without what came before it."""
        stretch = read_stretch(Fields(request.query_params))
        turn, _ = await self._stored(request)
        items = [message_item(turn.id, index, message) for index, message in enumerate(turn.messages)]
        return _json(item_list(*stretch_of(items, stretch)))

    async def _begin(self, ask: ResponseAsk, bounds: Bounds) -> Live:
        """A response under way, known by its id from its first moment on."""
        notes = Notes.of(ask, self._model.name, int(time.time()))
        turn = await self._opened(ask, bounds, lambda usage: msgspec.json.encode(notes.with_usage(usage)))
        live = Live(turn, ask.options.tenant, notes, len(ask.messages))
        self._live.add(live)
        return live

    async def _opened(self, ask: ResponseAsk, bounds: Bounds, detail: Detail) -> LiveTurn:
        """After what it goes on from has ended, in whatever process: whoever has just left a response may go on from it
        before that is saved. Raises ApiError.
        """
        if ask.previous is None:
            return await self._opener.response(ask, bounds, detail)
        await self._live.ended(ask.options.tenant, ask.previous)
        try:
            return await self._opener.response(ask, bounds, detail)
        except Missing:
            await self._live.ended_elsewhere(ask.options.tenant, ask.previous)
        return await self._opener.response(ask, bounds, detail)

    async def _stored(self, request: Request) -> tuple[Turn, Notes]:
        """A past answer of this endpoint's. Raises Missing."""
        name = _named(request)
        with reading(no_response(name)):
            turn = await self._catalogue.answer(tenant_of(request), name)
        return turn, _notes_of(turn)


def _notes_of(turn: Turn) -> Notes:
    """Raises Missing for an answer of another endpoint's: it can be gone on from, but was no response."""
    if not turn.detail:
        raise no_response(turn.id)
    return _notes.decode(turn.detail)


def _named(request: Request) -> str:
    """The id as the store knows it. Raises Missing: no response has an id of another kind."""
    name = str(request.path_params["response_id"])
    if not name.startswith(RESPONSE):
        raise no_response(name)
    return name.removeprefix(RESPONSE)


def _json(value: object) -> Reply:
    return Reply(msgspec.json.encode(value), media_type="application/json")
