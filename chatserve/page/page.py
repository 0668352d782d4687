"""The page of one server: its files, and the routes that only they ask."""

from __future__ import annotations

from collections.abc import Set

from starlette.routing import Route

from chatserve.engine.port import EnginePort
from chatserve.page.settings import PATH as SETTINGS
from chatserve.page.settings import Settings
from chatserve.page.static import StaticFiles, read_files
from chatserve.server.limits import ServerLimits
from chatserve.server.opening import TurnOpener


class Page:
    """Raises OSError where its files cannot be read."""

    def __init__(self, engine: EnginePort, *, model: str, limits: ServerLimits, needs_key: bool) -> None:
        self._static = StaticFiles(read_files())
        self._settings = Settings(engine, model, limits, needs_key=needs_key)

    @property
    def public(self) -> Set[str]:
        """The paths that need no key."""
        return {SETTINGS, *self._static.public}

    def routes(self, _opener: TurnOpener) -> list[Route]:
        return [*self._static.routes(), *self._settings.routes()]
