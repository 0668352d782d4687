"""The engine in a process of its own: its loop, and the socket to its clients.

Whatever happened since the last turn of the loop leaves in one message to each client. The loop waits on three things
at once: messages, the end of a step or of an admission, and the end of its parent.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import msgspec
import numpy as np
import torch
import zmq

from chatserve.engine.build import build_engine
from chatserve.engine.clients import Clients
from chatserve.engine.engine import Engine
from chatserve.engine.load_progress import capture_progress, load_progress
from chatserve.engine.messages import (
    AskPicture,
    AskPrefix,
    AskStats,
    Delta,
    Deltas,
    Flush,
    Flushed,
    FromEngine,
    Generate,
    Gone,
    Hello,
    Picture,
    Prefix,
    Ready,
    Stats,
    Stop,
    ToEngine,
    WarmPrefix,
)
from chatserve.engine.request import Tokens
from chatserve.engine.settings import Start
from chatserve.engine.telling import tell_picture, tell_prefix
from chatserve.model.loader import load_model
from chatserve.model.runner import model_thread
from vtensor.prefix import PrefixMemory

SWITCH_INTERVAL = 0.0005
"""Seconds. The mapper must not wait the default 5 ms for the interpreter after each of its calls."""


class Wake:
    """Rings from any thread; heard where `fileno` is polled."""

    def __init__(self) -> None:
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._event

    def ring(self) -> None:
        os.eventfd_write(self._event, 1)

    def hear(self) -> None:
        """Forget the rings so far."""
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return


@dataclass(frozen=True, slots=True)
class Wire:
    """The engine's end of its clients' connections. Nothing here waits: what a client does not read is kept for it by
    the socket, and what is meant for one that has gone is dropped.
    """

    socket: zmq.Socket[bytes]
    decoder: msgspec.msgpack.Decoder[ToEngine]
    encoder: msgspec.msgpack.Encoder

    @classmethod
    def listen(cls, context: zmq.Context[zmq.Socket[bytes]], endpoint: str) -> Wire:
        """Clients may connect from now on; what they say waits until it is received."""
        socket = context.socket(zmq.ROUTER)
        socket.set_hwm(0)
        socket.bind(endpoint)
        return cls(socket, msgspec.msgpack.Decoder(ToEngine), msgspec.msgpack.Encoder())

    def received(self) -> list[tuple[bytes, ToEngine]]:
        """Everything that has arrived, each with its client."""
        messages: list[tuple[bytes, ToEngine]] = []
        while self.socket.poll(0):
            client, said = self.socket.recv_multipart()
            messages.append((client, self.decoder.decode(said)))
        return messages

    def send(self, client: bytes, message: FromEngine) -> None:
        self.socket.send_multipart((client, self.encoder.encode(message)))


def run_engine(start: Start) -> None:
    """Load, say that it is ready, serve until the parent closes standard input, or dies.

    Raises ModelError, DriverError.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    wire = Wire.listen(context, start.endpoint)
    settings = start.settings
    device = settings.device if settings.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    worker = model_thread()
    load = partial(
        load_model,
        dtype=settings.dtype,
        device=device,
        max_len=settings.max_len,
        random_weights=settings.random_weights,
    )
    with load_progress(sys.stderr) as progress:
        model = worker.submit(load, settings.model, progress=progress).result()
    wake = Wake()
    with capture_progress(sys.stderr) as progress:
        engine, limits = build_engine(model, settings, wake.ring, worker, progress)
    gc.freeze()  # what was loaded stays: looking through all of it again would hold every stream up for 0.1 s
    try:
        serve(engine, wire, wake, Ready(spec=model.spec, limits=limits), parent=sys.stdin.fileno())
    finally:
        wire.socket.close(linger=500)
        engine.close()
        context.term()


def serve(engine: Engine, wire: Wire, wake: Wake, ready: Ready, *, parent: int) -> None:
    """The loop.

    parent: a pipe that becomes readable when the parent is done with the engine, or gone.
    """
    desk = Desk(engine, wire, ready)
    poller = zmq.Poller()
    poller.register(wire.socket, zmq.POLLIN)
    poller.register(wake, zmq.POLLIN)
    poller.register(parent, zmq.POLLIN)
    while parent not in dict(poller.poll()):
        wake.hear()
        for client, message in wire.received():
            desk.handle(client, message)
        desk.tell(engine.advance())


@dataclass(frozen=True, slots=True)
class Look:
    """What a client has asked to see: whether it has been looked up, and then its answer."""

    client: bytes
    done: Callable[[], bool]
    answer: Callable[[], FromEngine]


class Desk:
    """Between an engine, which knows requests, and its clients, who ask for them."""

    def __init__(self, engine: Engine, wire: Wire, ready: Ready) -> None:
        self._engine = engine
        self._wire = wire
        self._ready = ready
        self._clients = Clients()
        self._looks: list[Look] = []

    def handle(self, client: bytes, message: ToEngine) -> None:
        """Do what one message asks."""
        match message:
            case Generate():
                self._add(client, message)
            case Stop():
                if self._clients.release(client, message.id):
                    self._engine.stop(message.id, message.keep)
            case Hello():
                self._wire.send(client, self._ready)
            case Gone():
                for request_id in self._clients.leave(message.client.encode()):
                    self._engine.stop(request_id, None)
            case Flush():
                self._engine.flush().result()
                self._wire.send(client, Flushed(ticket=message.ticket))
            case AskStats():
                self._wire.send(client, Stats(ticket=message.ticket, stats=self._engine.stats()))
            case AskPrefix():
                self._look(client, message, self._engine.look)
            case WarmPrefix():
                self._look(client, message, self._engine.warm)
            case AskPicture():
                self._see(client, message)

    def tell(self, deltas: Iterable[Delta]) -> None:
        """One message to each client for whom there is something; and what was looked up for them."""
        looks, self._looks = self._looks, []
        for look in looks:
            if look.done():
                self._wire.send(look.client, look.answer())
            else:
                self._looks.append(look)
        for client, items in self._clients.sort(deltas).items():
            self._wire.send(client, Deltas(items=items))

    def _look(
        self,
        client: bytes,
        asked: AskPrefix | WarmPrefix,
        look: Callable[[str, Tokens], Future[PrefixMemory]],
    ) -> None:
        """No step waits for it."""
        found = look(asked.tenant, np.frombuffer(asked.tokens, dtype="<i4"))

        def answer() -> Prefix:
            return Prefix(ticket=asked.ticket, memory=tell_prefix(found.result()))

        self._looks.append(Look(client, found.done, answer))

    def _see(self, client: bytes, asked: AskPicture) -> None:
        """Nor for this."""
        seen = self._engine.picture(asked.tenant, most=asked.most, focus=asked.focus)

        def answer() -> Picture:
            stats = self._engine.stats(seen.result().stats)
            return Picture(ticket=asked.ticket, picture=tell_picture(seen.result(), stats))

        self._looks.append(Look(client, seen.done, answer))

    def _add(self, client: bytes, request: Generate) -> None:
        if self._clients.take(client, request.id):
            self._engine.add(request)
            return
        refused = Delta(id=request.id, finish="refused", error="another request has this id")
        self._wire.send(client, Deltas(items=[refused]))
