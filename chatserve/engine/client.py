"""A connection to an engine: requests go out, and what comes back is given to the streams that wait for it.

Whoever owns the engine's process (`keeper`) says where it listens, and when it has gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from itertools import count

import msgspec
import zmq

from chatserve.engine.messages import (
    AskPicture,
    AskPrefix,
    AskStats,
    Deltas,
    EngineStats,
    Flush,
    Flushed,
    FromEngine,
    Generate,
    Gone,
    Hello,
    MemoryPicture,
    Picture,
    Prefix,
    PrefixMemory,
    Ready,
    Stats,
    Stop,
    ToEngine,
    WarmPrefix,
)
from chatserve.engine.port import EngineDied, EngineUnavailable
from chatserve.engine.stream import Stream

log = logging.getLogger(__name__)

Reply = Stats | Flushed | Prefix | Picture

RECONNECT_MS = 20
"""Between two tries to reach an engine that does not listen yet."""


class EngineClient:
    """One connection, made anew for each engine that comes, and the streams that wait for it.

    name: the engine knows its clients by their names, so no two may share one, not even one after another.
    broken: set when what the engine says cannot be read.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.broken = asyncio.Event()
        self._info: Ready | None = None
        self._alive = False
        self._was_ready = asyncio.Event()
        self._streams: dict[str, Stream] = {}
        self._tickets: dict[int, asyncio.Future[Reply]] = {}
        self._ticket_numbers = count()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder[FromEngine](FromEngine)
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None

    @property
    def info(self) -> Ready | None:
        """The model and the limits, once an engine has been ready."""
        return self._info

    @property
    def alive(self) -> bool:
        """Whether there is an engine that is ready now."""
        return self._alive

    async def start(self) -> None:
        """Return when an engine has been ready."""
        await self._was_ready.wait()

    async def close(self, timeout: float = 0.0) -> None:
        """Tell every stream that it is over, and let go. Waits for nothing."""
        del timeout
        self.detach()
        self._context.destroy(linger=0)

    def attach(self, endpoint: str) -> None:
        """An engine was started that will listen there; it is alive when it has answered."""
        self.detach()
        socket = self._socket = self._context.socket(zmq.DEALER)
        socket.set_hwm(0)
        socket.setsockopt(zmq.IDENTITY, self.name.encode())
        socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        socket.connect(endpoint)
        # Read from the event loop itself: a step's message then costs one callback, however many streams it is for.
        asyncio.get_running_loop().add_reader(_descriptor(socket), self._receive)
        self._post(socket, Hello())

    def detach(self) -> None:
        """The engine has gone, and with it whatever it was asked."""
        self._alive = False
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(_descriptor(self._socket))
            self._socket.close(linger=0)
            self._socket = None
        self._fail_everyone()

    def submit(self, request: Generate) -> Stream:
        """Raises EngineUnavailable."""
        assert request.id not in self._streams, "two requests with one id"
        stream = Stream(request.id, self._stop)
        self._send(request)
        self._streams[request.id] = stream
        return stream

    def forget(self, client: str) -> None:
        """Have the engine drop what another client, which has gone, had asked."""
        if self._socket is not None:
            self._post(self._socket, Gone(client=client))

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

    async def prefix(self, tenant: str, tokens: bytes) -> PrefixMemory:
        """Raises EngineUnavailable."""
        ticket = next(self._ticket_numbers)
        return await self._ask_prefix(AskPrefix(ticket=ticket, tenant=tenant, tokens=tokens))

    async def warm(self, tenant: str, tokens: bytes) -> PrefixMemory:
        """Raises EngineUnavailable."""
        ticket = next(self._ticket_numbers)
        return await self._ask_prefix(WarmPrefix(ticket=ticket, tenant=tenant, tokens=tokens))

    async def picture(self, tenant: str, most: int, focus: Collection[str] = ()) -> MemoryPicture:
        """Raises EngineUnavailable."""
        ticket = next(self._ticket_numbers)
        reply = await self._ask(AskPicture(ticket=ticket, tenant=tenant, most=most, focus=tuple(focus)), ticket)
        assert isinstance(reply, Picture)
        return reply.picture

    async def _ask_prefix(self, message: AskPrefix | WarmPrefix) -> PrefixMemory:
        reply = await self._ask(message, message.ticket)
        assert isinstance(reply, Prefix)
        return reply.memory

    async def _ask(self, message: AskStats | Flush | AskPrefix | WarmPrefix | AskPicture, ticket: int) -> Reply:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._send(message)
        self._tickets[ticket] = reply
        try:
            return await reply
        finally:
            self._tickets.pop(ticket, None)

    def _send(self, message: ToEngine) -> None:
        if self._socket is None or not self._alive:
            raise EngineUnavailable("the engine is not ready; try again shortly")
        self._post(self._socket, message)

    def _post(self, socket: zmq.Socket[bytes], message: ToEngine) -> None:
        socket.send(self._encoder.encode(message))
        if _readable(socket):  # sending may have taken the news of an arrival from the loop
            asyncio.get_running_loop().call_soon(self._receive)

    def _stop(self, stream_id: str, keep: int | None) -> None:
        self._streams.pop(stream_id, None)
        if self._alive:
            self._send(Stop(id=stream_id, keep=keep))

    def _receive(self) -> None:
        """Everything that has arrived."""
        while self._socket is not None and _readable(self._socket):
            said = self._socket.recv(zmq.NOBLOCK)
            try:
                message = self._decoder.decode(said)
            except msgspec.DecodeError as error:
                log.error("the engine's messages cannot be read: %s", error)
                self.detach()
                self.broken.set()
                return
            self._dispatch(message)

    def _dispatch(self, message: FromEngine) -> None:
        match message:
            case Deltas():
                streams = self._streams
                for delta in message.items:
                    stream = streams.get(delta.id)
                    if stream is not None:
                        stream.put(delta)
                        if delta.finish is not None:
                            del streams[delta.id]
            case Ready():
                self._info, self._alive = message, True
                self._was_ready.set()
            case Stats() | Flushed() | Prefix() | Picture():
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


def _descriptor(socket: zmq.Socket[bytes]) -> int:
    """Readable when something may have arrived since the socket was last asked."""
    descriptor = socket.getsockopt(zmq.FD)
    assert isinstance(descriptor, int)
    return descriptor


def _readable(socket: zmq.Socket[bytes]) -> bool:
    """Asked of the socket itself: a poller, or an exception, costs as much as a message."""
    events = socket.getsockopt(zmq.EVENTS)
    assert isinstance(events, int)
    return bool(events & zmq.POLLIN)
