"""The page of one server: its files, and the routes that only they ask."""

from __future__ import annotations

from collections.abc import Set

from starlette.routing import Route

from chatserve.engine.port import EnginePort
from chatserve.page.answering import Answering
from chatserve.page.conversations import conversation_routes
from chatserve.page.following import Following
from chatserve.page.memory import memory_view_routes
from chatserve.page.relay import Relay
from chatserve.page.renderings import Renderings
from chatserve.page.settings import PATH as SETTINGS
from chatserve.page.settings import Settings
from chatserve.page.static import StaticFiles, read_files
from chatserve.page.turns import Turns
from chatserve.server.limits import ServerLimits
from chatserve.server.live import LiveResponses
from chatserve.server.meters import Meters
from chatserve.server.opening import TurnOpener
from chatserve.server.rate_limit import computed_tokens
from chatserve.server.running import RunningTurns
from chatserve.server.visit import Visit
from sessions.manager import SessionManager


class Page:
    """meters: None: nobody is limited.  Raises OSError where its files cannot be read."""

    def __init__(
        self,
        engine: EnginePort,
        sessions: SessionManager,
        running: RunningTurns,
        live: LiveResponses,
        meters: Meters | None,
        relay: Relay,
        *,
        model: str,
        limits: ServerLimits,
        needs_key: bool,
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._running = running
        self._live = live
        self._meters = meters
        self._model = model
        self._limits = limits
        self._relay = relay
        self._renderings = Renderings()
        self._static = StaticFiles(read_files())
        self._settings = Settings(engine, model, limits, needs_key=needs_key)

    @property
    def public(self) -> Set[str]:
        """The paths that need no key."""
        return {SETTINGS, *self._static.public}

    def routes(self, opener: TurnOpener) -> list[Route]:
        turns = Turns(
            opener,
            self._sessions,
            self._running,
            self._relay,
            Answering(self._sessions.catalogue, self._renderings),
            self._live,
            self._limits,
            model=self._model,
            charge=self._charge,
        )
        return [
            *self._static.routes(),
            *self._settings.routes(),
            *conversation_routes(self._sessions, self._limits, self._renderings, self._relay.rooms),
            *turns.routes(),
            *Following(self._sessions, self._running, self._relay, self._limits).routes(),
            *memory_view_routes(self._engine, self._sessions.catalogue, self._running, self._limits),
        ]

    def _charge(self, visit: Visit) -> None:
        if self._meters is not None:
            self._meters.charge(visit.caller, computed_tokens(visit))
