"""An engine that computes nothing: `python -m loadtest.null_engine ENDPOINT STEPS VOCABULARY TOKEN...`.

STEPS a second it says one token to every request, of the given ones in turn, as the real engine's process would.
"""

from __future__ import annotations

import sys
import time

import msgspec
import zmq

from chatserve.engine.clients import Clients
from chatserve.engine.messages import (
    AskStats,
    Delta,
    Deltas,
    EngineLimits,
    EngineStats,
    Finish,
    Generate,
    Hello,
    Ready,
    Reuse,
    Stats,
    Stop,
    ToEngine,
)
from chatserve.model.sampling import SamplingDefaults
from chatserve.model.spec import ModelSpec

CONTEXT = 65536


def ready(vocabulary: int) -> Ready:
    """What a model of this vocabulary would say of itself."""
    spec = ModelSpec(
        name="null",
        layers=1,
        heads=1,
        kv_heads=1,
        head_dim=8,
        vocab_size=vocabulary,
        max_len=CONTEXT,
        dtype="float32",
        end_ids=(2,),
        defaults=SamplingDefaults(),
    )
    return Ready(spec=spec, limits=EngineLimits(max_tokens=CONTEXT, max_running=4096))


class NullEngine:
    """tokens: what every answer says, again and again."""

    def __init__(self, socket: zmq.Socket[bytes], vocabulary: int, tokens: tuple[int, ...]) -> None:
        self._socket = socket
        self._vocabulary = vocabulary
        self._tokens = tokens
        self._clients = Clients()
        self._left: dict[str, int] = {}
        self._made: dict[str, int] = {}
        self._decoder = msgspec.msgpack.Decoder(ToEngine)
        self._encoder = msgspec.msgpack.Encoder()

    def hear(self) -> None:
        """Everything that has arrived."""
        while self._socket.poll(0):
            client, said = self._socket.recv_multipart()
            match self._decoder.decode(said):
                case Generate() as request:
                    self._clients.take(client, request.id)
                    self._left[request.id], self._made[request.id] = request.params.max_tokens, 0
                case Stop() as stop:
                    self._clients.release(client, stop.id)
                    self._left.pop(stop.id, None)
                    self._made.pop(stop.id, None)
                case Hello():
                    self._send(client, ready(self._vocabulary))
                case AskStats() as asked:
                    figures = dict.fromkeys(EngineStats.__struct_fields__, 0)
                    self._send(client, Stats(ticket=asked.ticket, stats=EngineStats(**figures)))

    def step(self) -> None:
        """One token to everybody."""
        deltas = []
        for request_id, left in list(self._left.items()):
            made = self._made[request_id] = self._made[request_id] + 1
            token = self._tokens[made % len(self._tokens)]
            finish: Finish | None = "length" if left == 1 else None
            reuse = Reuse() if made == 1 else None
            deltas.append(Delta(id=request_id, tokens=(token,), finish=finish, reuse=reuse, completion_tokens=made))
            if left == 1:
                del self._left[request_id]
            else:
                self._left[request_id] = left - 1
        for client, items in self._clients.sort(deltas).items():
            self._send(client, Deltas(items=items))

    def _send(self, client: bytes, message: Ready | Deltas | Stats) -> None:
        self._socket.send_multipart((client, self._encoder.encode(message)))


def main() -> None:
    """Step at the set rate, or as fast as one may if that is too slow, until killed."""
    endpoint, steps, vocabulary, *tokens = sys.argv[1:]
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.ROUTER)
    socket.set_hwm(0)
    socket.bind(endpoint)
    engine = NullEngine(socket, int(vocabulary), tuple(map(int, tokens)))
    pause = 1 / float(steps)
    due = time.perf_counter()
    while True:
        wait = due - time.perf_counter()
        if wait > 0:
            socket.poll(round(wait * 1e3))
        engine.hear()
        if time.perf_counter() >= due:
            engine.step()
            due = max(due + pause, time.perf_counter())


if __name__ == "__main__":
    main()
