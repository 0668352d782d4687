"""POST /v1/chat/completions."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from chatserve.server.body import read_json
from chatserve.server.chat_asks import ChatAsk, read_chat
from chatserve.server.disconnect import until_disconnect
from chatserve.server.fields import Fields
from chatserve.server.frames import ChatFrames
from chatserve.server.lengths import check_length
from chatserve.server.limits import ServerLimits
from chatserve.server.models import ServedModel
from chatserve.server.opening import TurnOpener
from chatserve.server.streaming import TurnStream
from chatserve.server.turn import Turn
from chatserve.server.visit import visit_of
from chatserve.server.wire import ChatChoice, ChatCompletion, ChatMessage


class ChatCompletions:
    def __init__(self, opener: TurnOpener, model: ServedModel, limits: ServerLimits) -> None:
        self._opener = opener
        self._model = model
        self._limits = limits

    async def create(self, request: Request) -> Response:
        bounds = self._opener.bounds()
        fields = Fields(await read_json(request, self._limits))
        self._model.check(fields)
        ask = read_chat(fields, bounds, self._limits.messages, visit_of(request))
        check_length(sum(len(message.content) for message in ask.messages), self._limits.text, "messages")
        turn = await until_disconnect(request, self._opener.chat(ask, bounds))
        if ask.options.stream:
            return TurnStream(turn, self._frames(turn, ask), self._limits)
        text = await until_disconnect(request, turn.complete())
        return Response(self._reply(turn, text), media_type="application/json")

    def _frames(self, turn: Turn, ask: ChatAsk) -> ChatFrames:
        return ChatFrames(turn, self._model.name, include_usage=ask.options.include_usage)

    def _reply(self, turn: Turn, text: str) -> bytes:
        assert turn.finish_reason is not None
        choice = ChatChoice(message=ChatMessage("assistant", text), finish_reason=turn.finish_reason)
        return msgspec.json.encode(
            ChatCompletion(
                id=f"chatcmpl-{turn.id}",
                created=turn.created,
                model=self._model.name,
                choices=(choice,),
                usage=turn.usage,
            )
        )
