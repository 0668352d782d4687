"""What a page has to know of its server before it asks for anything else."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chatserve import __version__
from chatserve.engine.port import EnginePort
from chatserve.server.asks import Bounds
from chatserve.server.limits import ServerLimits
from chatserve.server.visit import visit_of

PATH = "/page/settings"
"""Public, so that a page can learn that it needs a key."""


class Defaults(msgspec.Struct, frozen=True):
    """What a turn has that does not say otherwise; null: as long as there is room."""

    temperature: float
    top_p: float
    max_output_tokens: int | None = None


class Limits(msgspec.Struct, frozen=True):
    input_characters: int


class Closed(msgspec.Struct, frozen=True):
    """All that is said to somebody without a key."""

    needs_key: bool = True


class PageSettings(msgspec.Struct, frozen=True, kw_only=True):
    """max_model_len, defaults: null until the model has been loaded."""

    model: str
    models: tuple[str, ...]
    max_model_len: int | None
    defaults: Defaults | None
    limits: Limits
    needs_key: bool
    version: str


class Settings:
    """needs_key: whether this server has keys."""

    def __init__(self, engine: EnginePort, model: str, limits: ServerLimits, *, needs_key: bool) -> None:
        self._engine = engine
        self._model = model
        self._limits = limits
        self._needs_key = needs_key

    def routes(self) -> list[Route]:
        return [Route(PATH, self._get, methods=["GET"])]

    async def _get(self, request: Request) -> Response:
        known = not self._needs_key or visit_of(request).caller.name != ""
        said = self._said() if known else Closed()
        return Response(msgspec.json.encode(said), media_type="application/json", headers={"Cache-Control": "no-store"})

    def _said(self) -> PageSettings:
        ready = self._engine.info
        usual = None if ready is None else ready.spec.defaults
        return PageSettings(
            model=self._model,
            models=(self._model,),
            max_model_len=None if ready is None else Bounds.of(ready).max_tokens,
            defaults=None if usual is None else Defaults(usual.temperature, usual.top_p),
            limits=Limits(self._limits.text),
            needs_key=self._needs_key,
            version=__version__,
        )
