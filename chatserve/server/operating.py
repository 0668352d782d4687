"""The routes of those who run the server: is it alive, is it ready, what does it hold, give memory back."""

from __future__ import annotations

import asyncio

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from chatserve.engine.messages import EngineStats
from chatserve.engine.port import EnginePort, EngineUnavailable
from chatserve.server.errors import Unavailable
from chatserve.server.gatekeeper import check_admin
from chatserve.server.metrics import Metrics
from chatserve.server.running import RunningTurns
from chatserve.server.visit import visit_of

ENGINE_ANSWERS_WITHIN = 2.0


class Operating:
    def __init__(self, engine: EnginePort, running: RunningTurns, metrics: Metrics) -> None:
        self._engine = engine
        self._running = running
        self._metrics = metrics

    async def health(self, _request: Request) -> Response:
        """The process answers; whether it can serve is what /ready says."""
        return JSONResponse({"status": "alive"})

    async def ready(self, _request: Request) -> Response:
        """503 with the reason until the model is loaded and the engine answers, and again while the server drains."""
        self._running.check_open()
        if self._engine.info is None:
            raise Unavailable("The model is being loaded.", code="loading")
        if not self._engine.alive:
            raise Unavailable("The engine is being restarted.", code="engine_restarting")
        stats = await self._stats()
        return JSONResponse({"status": "ready", "running": stats.running, "waiting": stats.waiting})

    async def metrics(self, _request: Request) -> Response:
        """Without an engine there are still the server's own figures."""
        try:
            stats = await self._stats()
        except Unavailable:
            stats = None
        return Response(self._metrics.render(stats), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def stats(self, request: Request) -> Response:
        """For operators only."""
        check_admin(visit_of(request).caller)
        return Response(msgspec.json.encode(await self._stats()), media_type="application/json")

    async def flush(self, request: Request) -> Response:
        """Forget recorded prefixes and give their memory back; answers with what is held afterwards."""
        check_admin(visit_of(request).caller)
        try:
            await self._engine.flush()
        except EngineUnavailable:
            raise Unavailable("There is no engine to flush now; try again shortly.", code="not_ready") from None
        return await self.stats(request)

    async def _stats(self) -> EngineStats:
        try:
            async with asyncio.timeout(ENGINE_ANSWERS_WITHIN):
                return await self._engine.stats()
        except EngineUnavailable:
            raise Unavailable("The engine is not there to answer; try again shortly.", code="not_ready") from None
        except TimeoutError:
            raise Unavailable(
                f"The engine did not answer within {ENGINE_ANSWERS_WITHIN:g} s.", code="engine_silent"
            ) from None
