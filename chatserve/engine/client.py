"""The server's end of an engine process: start it, talk to it, start it again when it dies."""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from itertools import count
from pathlib import Path

import msgspec
import zmq
import zmq.asyncio

from chatserve.engine.messages import (
    AskStats,
    Deltas,
    EngineStats,
    Flush,
    Flushed,
    FromEngine,
    Generate,
    Ready,
    Stats,
    Stop,
    ToEngine,
)
from chatserve.engine.port import EngineDied, EngineError, EngineUnavailable
from chatserve.engine.settings import EngineSettings, Start
from chatserve.engine.stream import Stream

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0
"""Seconds between a death and the next start; doubled from death to death, until one has been ready."""


async def _end(process: Process, timeout: float) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), timeout)
    except TimeoutError:
        process.kill()
        await process.wait()


class EngineRefused(EngineError):
    """The engine could not be started at all: the model or the device cannot be used. It said why in its log."""


class EngineClient:
    """One engine process and the streams that wait for it."""

    def __init__(self, settings: EngineSettings, *, log_level: int = logging.INFO) -> None:
        self._settings = settings
        self._log_level = log_level
        self._info: Ready | None = None
        self._alive = False
        self._was_ready = False
        self._streams: dict[str, Stream] = {}
        self._tickets: dict[int, asyncio.Future[Stats | Flushed]] = {}
        self._ticket_numbers = count()
        self._starts = count()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder[FromEngine](FromEngine)
        self._context = zmq.asyncio.Context()
        self._folder = tempfile.TemporaryDirectory(prefix="chatserve-")
        self._socket: zmq.asyncio.Socket | None = None
        self._process: Process | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[None] | None = None

    @property
    def info(self) -> Ready | None:
        """The model and the limits, once it has been ready."""
        return self._info

    @property
    def alive(self) -> bool:
        """Whether it is ready now."""
        return self._alive

    async def start(self) -> None:
        """Start the process and return when it is ready. Raises EngineRefused when it never will be, and OSError."""
        self._ready = asyncio.get_running_loop().create_future()
        self._supervisor = asyncio.create_task(self._supervise(), name="engine supervisor")
        await asyncio.wait((self._ready, self._supervisor), return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done():
            self._supervisor.result()
        await self._ready

    async def close(self, timeout: float = 10.0) -> None:
        """Let the engine give its memory back and end; kill it after `timeout` seconds, or if it still loads."""
        patience = timeout if self._alive else 0.0
        try:
            if self._supervisor is not None:
                self._supervisor.cancel()
                await asyncio.wait((self._supervisor,))
            if self._process is not None and self._process.returncode is None:
                await _end(self._process, patience)
        finally:
            self._fail_everyone()
            self._context.destroy(linger=0)
            self._folder.cleanup()

    def submit(self, request: Generate) -> Stream:
        """Raises EngineUnavailable."""
        assert request.id not in self._streams, "two requests with one id"
        stream = Stream(request.id, self._stop)
        self._send(request)
        self._streams[request.id] = stream
        return stream

    async def stats(self) -> EngineStats:
        """Raises EngineUnavailable."""
        ticket = next(self._ticket_numbers)
        reply = await self._ask(AskStats(ticket=ticket), ticket)
        assert isinstance(reply, Stats)
        return reply.stats

    async def flush(self) -> None:
        """Raises EngineUnavailable."""
        ticket = next(self._ticket_numbers)
        await self._ask(Flush(ticket=ticket), ticket)

    async def _ask(self, message: AskStats | Flush, ticket: int) -> Stats | Flushed:
        reply: asyncio.Future[Stats | Flushed] = asyncio.get_running_loop().create_future()
        self._send(message)
        self._tickets[ticket] = reply
        try:
            return await reply
        finally:
            self._tickets.pop(ticket, None)

    def _send(self, message: ToEngine) -> None:
        if self._socket is None or not self._alive:
            raise EngineUnavailable("the engine is not ready; try again shortly")
        self._socket.send(self._encoder.encode(message))

    def _stop(self, stream_id: str, keep: int | None) -> None:
        self._streams.pop(stream_id, None)
        if self._alive:
            self._send(Stop(id=stream_id, keep=keep))

    async def _supervise(self) -> None:
        """Keep one engine running."""
        assert self._ready is not None
        pause = FIRST_PAUSE
        while True:
            status = await self._run_once()
            if not self._ready.done():
                self._ready.set_exception(EngineRefused(f"the engine ended with status {status} before it was ready"))
                return
            pause = FIRST_PAUSE if self._was_ready else min(2 * pause, LONGEST_PAUSE)
            self._was_ready = False
            log.error("the engine died with status %s; starting it again in %.1f s", status, pause)
            await asyncio.sleep(pause)

    async def _run_once(self) -> int:
        """Run one process to its end; its exit status."""
        endpoint = f"ipc://{Path(self._folder.name, f'engine-{next(self._starts)}')}"
        socket = self._context.socket(zmq.PAIR)
        socket.set_hwm(0)
        socket.bind(endpoint)
        self._socket = socket
        process = self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "chatserve.engine", stdin=PIPE, start_new_session=True
        )
        assert process.stdin is not None
        start = Start(settings=self._settings, endpoint=endpoint, log_level=self._log_level)
        process.stdin.write(msgspec.json.encode(start) + b"\n")
        receiver = asyncio.create_task(self._receive(socket), name="engine receiver")
        exit_status = asyncio.create_task(process.wait(), name="engine exit")
        try:
            await asyncio.wait((receiver, exit_status), return_when=asyncio.FIRST_COMPLETED)
            if receiver.done():
                process.kill()
                log.error("the engine's messages cannot be read: %s", receiver.exception())
            return await exit_status
        finally:
            self._alive = False
            receiver.cancel()
            exit_status.cancel()
            await asyncio.wait((receiver, exit_status))
            socket.close(linger=0)
            self._fail_everyone()

    async def _receive(self, socket: zmq.asyncio.Socket) -> None:
        while True:
            self._dispatch(self._decoder.decode(await socket.recv()))

    def _dispatch(self, message: FromEngine) -> None:
        match message:
            case Deltas():
                for delta in message.items:
                    stream = self._streams.get(delta.id)
                    if stream is not None:
                        stream.put(delta)
                        if delta.finish is not None:
                            del self._streams[delta.id]
            case Ready():
                self._info, self._alive, self._was_ready = message, True, True
                assert self._ready is not None
                if not self._ready.done():
                    self._ready.set_result(None)
            case Stats() | Flushed():
                reply = self._tickets.get(message.ticket)
                if reply is not None and not reply.done():
                    reply.set_result(message)

    def _fail_everyone(self) -> None:
        for stream in self._streams.values():
            stream.fail(EngineDied("the engine died during this answer; ask again to go on"))
        self._streams.clear()
        for reply in self._tickets.values():
            if not reply.done():
                reply.set_exception(EngineUnavailable("the engine died; try again shortly"))
