"""What stands between the network and the routes, in the order in which a request meets it."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from starlette.types import ASGIApp

from chatserve.server.cors import Cors
from chatserve.server.gatekeeper import PUBLIC, Gatekeeper
from chatserve.server.keys import KeyRing
from chatserve.server.meters import Meters
from chatserve.server.rate_limit import RateLimit
from chatserve.server.request_log import RequestLog
from chatserve.server.visit import Caller

OPEN = Caller("", admin=True)
"""Whoever asks a server without keys and limits."""


@dataclass(frozen=True, slots=True)
class Edge:
    """keys: None: nobody is asked for one.  anybody: who asks, until a key says otherwise.

    meters: None: nobody is limited.  origins: whose pages may read answers.  public: paths that take no key.
    """

    keys: KeyRing | None = None
    anybody: Caller = OPEN
    meters: Meters | None = None
    origins: tuple[str, ...] = ()
    public: Set[str] = PUBLIC

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application, to be reached through the edge only. None of its parts looks at what is streamed."""
        if self.meters is not None:
            app = RateLimit(app, self.meters, self.public)
        if self.keys is not None:
            app = Gatekeeper(app, self.keys, self.public)
        if self.origins:
            app = Cors(app, self.origins)
        return RequestLog(app, self.anybody)

    def reload(self) -> None:
        """Read the keys again."""
        if self.keys is not None:
            self.keys.reload()
