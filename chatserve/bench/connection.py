"""A keep-alive connection that carries one request at a time, and says when each was sent."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Final, cast

from chatserve.bench.dialects import BadAnswer
from chatserve.bench.exchange import Exchange
from chatserve.bench.measuring import Reading
from chatserve.bench.outcome import TIMEOUT, UNREACHABLE
from chatserve.bench.target import Target

IDLE: Final = 2.0
"""Seconds after which a connection is not used again: the server may be about to close it, and a request that meets
its end would be taken for a failure."""
AFTER_END: Final = 1.0
"""Seconds that a server gets to end a body whose end mark has come; they are in no figure."""

clock: Final = time.perf_counter
"""One clock for all processes of a machine."""


class Sent:
    """When the last byte of a request was handed to the socket; None if it never was."""

    def __init__(self) -> None:
        self.at: float | None = None


class Connection:
    """Opened by a request when there is none, or none that can be used."""

    def __init__(self, target: Target, timeout: float) -> None:
        """timeout: seconds that one request may take."""
        self._target = target
        self._timeout = timeout
        self._tls = ssl.create_default_context() if target.scheme == "https" else None
        self._wire: _Wire | None = None
        self._used = 0.0

    async def fetch(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The body of a whole response. Raises BadAnswer."""
        exchange = Exchange()
        await self._carry(self._target.request(method, path, body), exchange, Sent())
        return exchange.body

    async def stream(
        self, path: str, body: bytes, reading: Reading, sent: Sent, leave_after: int | None = None
    ) -> bool:
        """Post, and read an answer to its end; whether it came there. False: left after so many events with text.

        Raises BadAnswer. `sent` is noted whatever comes of it.
        """
        exchange = Exchange(reading, leave_after)
        await self._carry(self._target.request("POST", path, body), exchange, sent)
        return not exchange.left

    def close(self) -> None:
        if self._wire is not None:
            self._wire.abort()
        self._wire = None

    async def _carry(self, request: bytes, exchange: Exchange, sent: Sent) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                wire = await self._open()
                await wire.carry(request, exchange, sent)
            exchange.check()
        except TimeoutError:
            raise BadAnswer(TIMEOUT, f"no end within {self._timeout:g} s") from None
        finally:
            self._used = clock()
            if not exchange.reusable:
                self.close()

    async def _open(self) -> _Wire:
        if self._wire is not None and (self._wire.lost or clock() - self._used > IDLE):
            self.close()
        if self._wire is None:
            loop = asyncio.get_running_loop()
            try:
                _, self._wire = await loop.create_connection(_Wire, self._target.host, self._target.port, ssl=self._tls)
            except TimeoutError:
                raise
            except (OSError, UnicodeError) as error:  # a host name that cannot be one is the second
                raise BadAnswer(UNREACHABLE, getattr(error, "strerror", None) or str(error)) from None
        return self._wire


class _Wire(asyncio.Protocol):
    """One TCP connection. lost: it is at its end."""

    def __init__(self) -> None:
        self.lost = False
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._over: asyncio.Future[None] | None = None
        self._sent = Sent()
        self._ending: asyncio.TimerHandle | None = None

    async def carry(self, request: bytes, exchange: Exchange, sent: Sent) -> None:
        """Until nothing more is to be waited for."""
        assert self._transport is not None
        self._exchange, self._sent = exchange, sent
        self._over = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        if not self._transport.get_write_buffer_size():
            sent.at = clock()
        try:
            await self._over
        finally:
            self._exchange = None
            if self._ending is not None:
                self._ending.cancel()
                self._ending = None

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # so that `resume_writing` says when all is sent

    def resume_writing(self) -> None:
        if self._sent.at is None:
            self._sent.at = clock()

    def data_received(self, data: bytes) -> None:
        now = clock()
        exchange = self._exchange
        if exchange is None:
            return
        exchange.feed(data, now)
        if exchange.settled:
            self._settle()
        elif exchange.over and self._ending is None:
            self._ending = asyncio.get_running_loop().call_later(AFTER_END, self._settle)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002
        self.lost = True
        if self._exchange is not None:
            self._exchange.closed(clock())
            self._settle()

    def _settle(self) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)
