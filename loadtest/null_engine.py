"""In the engine's place, what answers at once: `python -m loadtest.null_engine ENDPOINT VOCABULARY TOKEN...`.

It says one token after the other to every request, of the given ones in turn: what is then left of a time to the first
token is the server's.
"""

from __future__ import annotations

import sys

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
from loadtest.null_runner import CONTEXT, null_spec


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

    @property
    def busy(self) -> bool:
        """Whether anybody waits for a token."""
        return bool(self._left)

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
                    limits = EngineLimits(max_tokens=CONTEXT, max_running=4096)
                    self._send(client, Ready(spec=null_spec(self._vocabulary), limits=limits))
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
    """Answer until standard input is closed."""
    endpoint, vocabulary, *tokens = sys.argv[1:]
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.ROUTER)
    socket.set_hwm(0)
    socket.bind(endpoint)
    engine = NullEngine(socket, int(vocabulary), tuple(map(int, tokens)))
    poller = zmq.Poller()
    poller.register(socket, zmq.POLLIN)
    poller.register(parent := sys.stdin.fileno(), zmq.POLLIN)
    while parent not in dict(poller.poll(0 if engine.busy else None)):
        engine.hear()
        engine.step()
    context.destroy(linger=0)


if __name__ == "__main__":
    main()
