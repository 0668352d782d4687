"""The engine in a process of its own: its loop, and the socket to its server.

Whatever happened since the last turn of the loop leaves in one message. The loop waits on three things at once:
messages, the end of a step or of an admission, and the end of its parent.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import partial

import msgspec
import torch
import zmq

from chatserve.engine.build import build_engine
from chatserve.engine.engine import Engine
from chatserve.engine.messages import (
    AskStats,
    Deltas,
    Flush,
    Flushed,
    FromEngine,
    Generate,
    Ready,
    Stats,
    Stop,
    ToEngine,
)
from chatserve.engine.settings import Start
from chatserve.model.loader import load_model
from chatserve.model.runner import model_thread

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
    """The engine's end of the socket."""

    socket: zmq.Socket[bytes]
    decoder: msgspec.msgpack.Decoder[ToEngine]
    encoder: msgspec.msgpack.Encoder

    def received(self) -> list[ToEngine]:
        """Everything that has arrived, without waiting."""
        messages: list[ToEngine] = []
        while self.socket.poll(0):
            messages.append(self.decoder.decode(self.socket.recv()))
        return messages

    def send(self, message: FromEngine) -> None:
        self.socket.send(self.encoder.encode(message))


def run_engine(start: Start) -> None:
    """Load, say that it is ready, serve until the parent closes standard input, or dies.

    Raises ModelError, DriverError.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.PAIR)
    socket.set_hwm(0)
    socket.connect(start.endpoint)
    wire = Wire(socket, msgspec.msgpack.Decoder(ToEngine), msgspec.msgpack.Encoder())
    settings = start.settings
    device = settings.device if settings.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    worker = model_thread()
    load = partial(load_model, dtype=settings.dtype, device=device, max_len=settings.max_len)
    model = worker.submit(load, settings.model).result()
    wake = Wake()
    engine, limits = build_engine(model, settings, wake.ring, worker)
    try:
        wire.send(Ready(spec=model.spec, limits=limits))
        serve(engine, wire, wake, parent=sys.stdin.fileno())
    finally:
        socket.close(linger=500)
        engine.close()
        context.term()


def serve(engine: Engine, wire: Wire, wake: Wake, *, parent: int) -> None:
    """The loop.

    parent: a pipe that becomes readable when the parent is done with the engine, or gone.
    """
    poller = zmq.Poller()
    poller.register(wire.socket, zmq.POLLIN)
    poller.register(wake, zmq.POLLIN)
    poller.register(parent, zmq.POLLIN)
    while parent not in dict(poller.poll()):
        wake.hear()
        for message in wire.received():
            handle(message, engine, wire)
        deltas = engine.advance()
        if deltas:
            wire.send(Deltas(items=deltas))


def handle(message: ToEngine, engine: Engine, wire: Wire) -> None:
    """Do what one message asks."""
    match message:
        case Generate():
            engine.add(message)
        case Stop():
            engine.stop(message.id, message.keep)
        case Flush():
            engine.flush().result()
            wire.send(Flushed(ticket=message.ticket))
        case AskStats():
            wire.send(Stats(ticket=message.ticket, stats=engine.stats()))
