"""`chatserve serve`: a server from its parts."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvloop

from chatserve.commands.api import CANNOT_SERVE, serve_api
from chatserve.commands.edge import open_edge
from chatserve.engine.client import EngineClient
from chatserve.engine.keeper import EngineKeeper, EngineRefused
from chatserve.engine.settings import EngineSettings
from chatserve.model.demo_folder import demo_path, is_current
from chatserve.server.binding import CannotBind, bind_several
from chatserve.server.control import Api, EdgeSettings
from chatserve.server.limits import ServerLimits
from chatserve.server.meters import Meters
from chatserve.server.serve import DrainLimits
from chatserve.server.supervisor import supervise
from chatserve.server.tally import Tally
from chatserve.server.workers import WorkerRefused, Workers

DEMO = "demo"
WORKER = (sys.executable, "-m", "chatserve.commands.worker")


def run(
    *,
    model: str,
    name: str | None,
    host: str,
    port: int,
    device: str,
    dtype: str | None,
    max_model_len: int | None,
    max_num_seqs: int | None,
    max_num_batched_tokens: int | None,
    kv_limit: int | None,
    kv_reserve: int,
    kv_idle_ttl: float | None,
    priorities: tuple[int, int],
    sessions: str,
    history_ttl: float,
    drain: float,
    api_keys: Path | None,
    api_key: str | None,
    share_prefixes: bool,
    public_metrics: bool,
    cors_origin: list[str],
    requests_per_minute: int | None,
    tokens_per_minute: int | None,
    max_body: int,
    max_messages: int,
    max_text: int,
    log_level: str,
    workers: int,
    random_weights: bool,
    cache: Path,
) -> int:
    """Serve until told to leave; the exit status."""
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    level = logging.getLevelName(log_level.upper())
    try:
        sockets = bind_several(host, port, workers)
        source = demo_model(cache) if model == DEMO else model
        settings = EngineSettings(
            model=source,
            device=device,
            dtype=dtype,
            max_len=max_model_len,
            max_running=max_num_seqs,
            step_tokens=max_num_batched_tokens,
            kv_bytes=kv_limit,
            kv_reserve=kv_reserve,
            keep_unused=kv_idle_ttl,
            priorities=priorities,
            random_weights=random_weights,
        )
        api = Api(
            source=source,
            name=name or Path(source).stem,
            sessions=sessions,
            history_ttl=history_ttl,
            drain=drain,
            edge=EdgeSettings(
                keys_file=None if api_keys is None else str(api_keys),
                key=api_key if api_keys is None else None,
                share_prefixes=share_prefixes,
                public_metrics=public_metrics,
                origins=tuple(cors_origin),
                requests=requests_per_minute,
                tokens=tokens_per_minute,
            ),
            limits=ServerLimits(body_bytes=max_body, messages=max_messages, text=max_text),
        )
        if workers == 1:
            uvloop.run(serve_alone(sockets[0], settings, api, level))
        else:
            uvloop.run(serve_together(sockets, settings, api, level))
    except (CannotBind, DemoMissing, EngineRefused, WorkerRefused, *CANNOT_SERVE) as error:
        print(f"chatserve: {error}", file=sys.stderr)
        return 1
    return 0


class DemoMissing(Exception):
    """The demo model could not be fetched; pip has said why."""


def demo_model(cache: Path) -> str:
    """The demo model's folder, fetched first where it is not there. Raises DemoMissing."""
    folder = demo_path(cache)
    if not is_current(folder) and subprocess.run([sys.executable, "-m", "chatserve", "demo"], check=False).returncode:
        raise DemoMissing("the demo model is not here and could not be fetched; name a model folder instead")
    return str(folder)


async def serve_alone(listening: socket.socket, settings: EngineSettings, api: Api, log_level: int) -> None:
    """The engine's owner and the API in this process. Raises EngineRefused and CANNOT_SERVE."""
    client = EngineClient("server")
    keeper = EngineKeeper(settings, client, log_level=log_level)
    meters = Meters.share()
    edge = open_edge(api.edge, meters)
    welcoming = welcome(api.name, listening, keyed=api.edge.keyed)
    try:
        with reloading(api.edge, edge.reload):
            await serve_api(api, listening, client, keeper, edge, ready=lambda: print(welcoming, flush=True))
    finally:
        os.close(meters)


async def serve_together(sockets: Sequence[socket.socket], settings: EngineSettings, api: Api, log_level: int) -> None:
    """The engine's owner in this process, the API in as many others as there are sockets. Raises EngineRefused and
    WorkerRefused.
    """
    client = EngineClient("supervisor")
    open_edge(api.edge, meters := Meters.share())  # what is wrong with the keys is said here, once
    tally = Tally.share(len(sockets))
    workers = Workers(WORKER, api, sockets, tally, meters, died=client.forget, log_level=log_level)
    keeper = EngineKeeper(settings, client, log_level=log_level, tell=workers.tell)
    welcoming = welcome(api.name, sockets[0], keyed=api.edge.keyed)
    try:
        with reloading(api.edge, workers.reload):
            await supervise(
                keeper,
                workers,
                limits=DrainLimits(running=api.drain),
                ready=lambda: print(welcoming, flush=True),
            )
    finally:
        os.close(tally)
        os.close(meters)


@contextmanager
def reloading(edge: EdgeSettings, reload: Callable[[], None]) -> Iterator[None]:
    """On SIGHUP a file of API keys is read again; without one the signal means what it always does."""
    if edge.keys_file is None:
        yield
        return
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, reload)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


def welcome(name: str, listening: socket.socket, *, keyed: bool) -> str:
    """What to do next."""
    host, port = listening.getsockname()[:2]
    url = f"http://{host}:{port}"
    chat = "chatserve chat" if port == 8000 else f"chatserve chat --url {url}"
    key = ' -H "authorization: Bearer $CHATSERVE_API_KEY"' if keyed else ""
    return (
        f"\n{name} is ready at {url}\n"
        f"  talk to it:  .venv/bin/{chat}\n"
        f"  or:          curl -N {url}/v1/chat/completions -H 'content-type: application/json'{key} \\\n"
        """                 -d '{"messages": [{"role": "user", "content": "Hello!"}], "stream": true}'\n"""
    )
