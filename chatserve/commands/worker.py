"""An API process of several: `python -m chatserve.commands.worker`, started and told by its supervisor.

It reads lines from standard input and answers on standard output (`server/control.py`). When the supervisor is gone, so
is it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from functools import partial

import msgspec
import uvloop

from chatserve.commands.api import CANNOT_SERVE, serve_api
from chatserve.commands.edge import open_edge
from chatserve.engine.client import EngineClient
from chatserve.page.relay import Relay
from chatserve.page.rooms import Rooms
from chatserve.server.control import (
    LONGEST_LINE,
    Cancel,
    EngineAt,
    Found,
    FromWorker,
    Passed,
    Refused,
    Reload,
    ToWorker,
    Up,
    Wanted,
    WorkerStart,
)
from chatserve.server.edge import Edge
from chatserve.server.live import LiveResponses
from chatserve.server.serve import ExitSignals
from chatserve.server.tally import Tally


def main() -> int:
    """Exit status of the process."""
    with open(sys.stdin.fileno(), "rb", buffering=0, closefd=False) as unbuffered:
        start = msgspec.json.decode(unbuffered.readline(), type=WorkerStart)
    logging.basicConfig(
        level=start.log_level, format=f"%(asctime)s %(levelname)s {start.client}: %(message)s", stream=sys.stderr
    )
    try:
        uvloop.run(work(start))
    except CANNOT_SERVE as error:
        report(Refused(reason=str(error)))
        return 1
    return 0


async def work(start: WorkerStart) -> None:
    """Serve until told to leave, by a signal or by the supervisor's end."""
    client, signals = EngineClient(start.client), ExitSignals()
    edge = open_edge(start.api.edge, start.meters)
    live = LiveResponses(report)
    relay = Relay(Rooms(), lambda said: report(Passed(said=said)))
    tasks = [
        asyncio.create_task(follow(await standard_input(), client, edge, live, relay, signals)),
        asyncio.create_task(leave_if_broken(client, signals)),
    ]
    try:
        await serve_api(
            start.api,
            socket.socket(fileno=start.listening),
            client,
            client,
            edge,
            ready=partial(report, Up()),
            signals=signals,
            live=live,
            relay=relay,
            tally=Tally(rows=start.rows, row=start.row, file=start.tally),
        )
    finally:
        for task in tasks:
            task.cancel()


async def standard_input() -> asyncio.StreamReader:
    """Lines as they come."""
    reader = asyncio.StreamReader(LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def follow(
    lines: asyncio.StreamReader,
    client: EngineClient,
    edge: Edge,
    live: LiveResponses,
    relay: Relay,
    signals: ExitSignals,
) -> None:
    """Do as the supervisor says, and be where the engine is. Without a supervisor there will be none: leave at once."""
    while line := await lines.readline():
        said: ToWorker = msgspec.json.decode(line, type=ToWorker)
        match said:
            case Reload():
                edge.reload()
            case Cancel() | Wanted() | Found():
                live.hear(said)
            case Passed():
                relay.hear(said.said)
            case EngineAt(endpoint=None):
                client.detach()
            case EngineAt(endpoint=str(endpoint)):
                client.attach(endpoint)
    signals.note_twice()


async def leave_if_broken(client: EngineClient, signals: ExitSignals) -> None:
    """A process that cannot read what the engine says makes room for another one."""
    await client.broken.wait()
    signals.note_twice()


def report(message: FromWorker) -> None:
    """Tell the supervisor."""
    sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
