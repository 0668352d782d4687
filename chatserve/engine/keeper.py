"""Keeps one engine process running: starts it, says where it is, and starts it again when it dies."""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from itertools import count
from pathlib import Path

import msgspec

from chatserve.engine.client import EngineClient
from chatserve.engine.port import EngineError
from chatserve.engine.settings import EngineSettings, Start

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds between a death and the next start; doubled from death to death, until one has been ready."""


class EngineRefused(EngineError):
    """The engine could not be started at all: the model or the device cannot be used. It said why in its log."""


class EngineKeeper:
    """The owner of an engine's process.

    client: the owner's own connection, attached and detached here.
    tell: called with an engine's endpoint as it is started and with None when it has gone, for all other clients.
    """

    def __init__(
        self,
        settings: EngineSettings,
        client: EngineClient,
        *,
        log_level: int = logging.INFO,
        tell: Callable[[str | None], None] = lambda _endpoint: None,
    ) -> None:
        self._settings = settings
        self._client = client
        self._log_level = log_level
        self._tell = tell
        self._starts = count()
        self._folder = tempfile.TemporaryDirectory(prefix="chatserve-")
        self._process: Process | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process and return when it is ready. Raises EngineRefused when it never will be, and OSError."""
        self._keeping = asyncio.create_task(self._keep(), name="engine keeper")
        ready = asyncio.create_task(self._client.start())
        try:
            await asyncio.wait((ready, self._keeping), return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                self._keeping.result()
        finally:
            ready.cancel()

    async def close(self, timeout: float = 10.0) -> None:
        """Let the engine give its memory back and end; kill it after `timeout` seconds, or if it still loads."""
        patience = timeout if self._client.alive else 0.0
        try:
            if self._keeping is not None:
                self._keeping.cancel()
                await asyncio.wait((self._keeping,))
            if self._process is not None and self._process.returncode is None:
                await _end(self._process, patience)
        finally:
            await self._client.close()
            self._folder.cleanup()

    async def _keep(self) -> None:
        """Keep one engine running."""
        pause, ever_ready = FIRST_PAUSE, False
        while True:
            status, was_ready = await self._run_once()
            ever_ready |= was_ready
            if not ever_ready:
                raise EngineRefused(f"the engine ended with status {status} before it was ready")
            pause = FIRST_PAUSE if was_ready else min(2 * pause, LONGEST_PAUSE)
            log.error("the engine died with status %s; starting it again in %.1f s", status, pause)
            await asyncio.sleep(pause)

    async def _run_once(self) -> tuple[int, bool]:
        """Run one process to its end; its exit status, and whether it was ready."""
        endpoint = f"ipc://{Path(self._folder.name, f'engine-{next(self._starts)}')}"
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "chatserve.engine", stdin=PIPE, start_new_session=True
        )
        assert process.stdin is not None
        start = Start(settings=self._settings, endpoint=endpoint, log_level=self._log_level)
        process.stdin.write(msgspec.json.encode(start) + b"\n")
        self._client.broken.clear()
        self._client.attach(endpoint)
        self._tell(endpoint)
        broken = asyncio.create_task(self._client.broken.wait())
        ended = asyncio.create_task(process.wait())
        try:
            await asyncio.wait((broken, ended), return_when=asyncio.FIRST_COMPLETED)
            if broken.done():
                process.kill()
            return await ended, self._client.alive
        finally:
            for task in (broken, ended):
                task.cancel()
            self._client.detach()
            self._tell(None)


async def _end(process: Process, timeout: float) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), timeout)
    except TimeoutError:
        process.kill()
        await process.wait()
