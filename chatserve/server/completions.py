"""POST /v1/completions: a prompt as it is, of no conversation."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from chatserve.server.asks import CompletionAsk, read_completion
from chatserve.server.body import read_json
from chatserve.server.disconnect import until_disconnect
from chatserve.server.fields import Fields
from chatserve.server.frames import TextFrames
from chatserve.server.lengths import check_length
from chatserve.server.limits import ServerLimits
from chatserve.server.models import ServedModel
from chatserve.server.opening import TurnOpener
from chatserve.server.streaming import TurnStream
from chatserve.server.turn import Turn
from chatserve.server.visit import visit_of
from chatserve.server.wire import TextChoice, TextCompletion


class Completions:
    def __init__(self, opener: TurnOpener, model: ServedModel, limits: ServerLimits) -> None:
        self._opener = opener
        self._model = model
        self._limits = limits

    async def create(self, request: Request) -> Response:
        bounds = self._opener.bounds()
        fields = Fields(await read_json(request, self._limits))
        self._model.check(fields)
        ask = read_completion(fields, bounds, visit_of(request))
        check_length(len(ask.prompt), self._limits.text, "prompt")
        turn = await until_disconnect(request, self._opener.completion(ask, bounds))
        if ask.options.stream:
            return TurnStream(turn, self._frames(turn, ask), self._limits)
        text = await until_disconnect(request, turn.complete())
        return Response(self._reply(turn, text), media_type="application/json")

    def _frames(self, turn: Turn, ask: CompletionAsk) -> TextFrames:
        return TextFrames(turn, self._model.name, include_usage=ask.options.include_usage)

    def _reply(self, turn: Turn, text: str) -> bytes:
        return msgspec.json.encode(
            TextCompletion(
                id=f"cmpl-{turn.id}",
                created=turn.created,
                model=self._model.name,
                choices=(TextChoice(text=text, finish_reason=turn.finish_reason),),
                usage=turn.usage,
            )
        )
