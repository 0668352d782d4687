"""GET /v1/models: the one model that is served."""

from __future__ import annotations

import time

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from chatserve.engine.port import EnginePort
from chatserve.server.asks import Bounds
from chatserve.server.errors import Missing, Unavailable, shown
from chatserve.server.fields import Fields
from chatserve.server.wire import ModelCard, ModelList

_NAME_LENGTH = 512
"""Characters of a name that is looked at, unless the model's own is longer."""


class ServedModel:
    """The model's name, and what is said of it."""

    def __init__(self, name: str, engine: EnginePort) -> None:
        self.name = name
        self._engine = engine
        self._created = int(time.time())

    def check(self, fields: Fields) -> None:
        """A request may leave the model out, but not name another one. Raises Missing and BadRequest."""
        asked = fields.text("model", longest=max(_NAME_LENGTH, len(self.name)))
        if asked is not None:
            self._check_name(asked)

    async def list(self, _request: Request) -> Response:
        return _json(ModelList(data=(self._card(),)))

    async def get(self, request: Request) -> Response:
        self._check_name(request.path_params["model_id"])
        return _json(self._card())

    def _check_name(self, asked: str) -> None:
        if asked != self.name:
            raise Missing(
                f"There is no model {shown(asked)} here; this server has {shown(self.name)}.",
                param="model",
                code="model_not_found",
            )

    def _card(self) -> ModelCard:
        if self._engine.info is None:
            raise Unavailable("The model is still being loaded; see /ready.", code="not_ready")
        return ModelCard(id=self.name, created=self._created, max_model_len=Bounds.of(self._engine.info).max_tokens)


def _json(value: ModelCard | ModelList) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
