"""`chatserve serve`: a server from its parts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from pathlib import Path

import uvloop

from chatserve.engine.client import EngineClient, EngineRefused
from chatserve.engine.settings import EngineSettings
from chatserve.model.demo_folder import demo_path, is_current
from chatserve.server.app import create_app
from chatserve.server.binding import CannotBind, bind
from chatserve.server.running import RunningTurns
from chatserve.server.serve import DrainLimits, serve
from chatserve.text.errors import TokenizerError
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from sessions.manager import SessionManager
from sessions.sqlite import SqliteStore
from sessions.store import StoreError

DEMO = "demo"
EXPIRY_SECONDS = 60.0
"""Between two looks for stateless conversations that nobody continues any more."""


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
    log_level: str,
    cache: Path,
) -> int:
    """Serve until told to leave; the exit status."""
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    try:
        listening = bind(host, port)
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
        )
        engine = EngineClient(settings, log_level=logging.getLevelName(log_level.upper()))
        uvloop.run(
            serve_until_told(
                listening,
                engine,
                source=source,
                name=name or Path(source).stem,
                sessions=Path(sessions),
                history_ttl=history_ttl,
                limits=DrainLimits(running=drain),
            )
        )
    except (CannotBind, DemoMissing, EngineRefused, TokenizerError, StoreError) as error:
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


async def serve_until_told(
    listening: socket.socket,
    engine: EngineClient,
    *,
    source: str,
    name: str,
    sessions: Path,
    history_ttl: float,
    limits: DrainLimits,
) -> None:
    """Everything a server owns, from its first connection to its last."""
    tokenizer = Tokenizer.load(source)
    store = await SqliteStore.open(sessions)
    manager, running = SessionManager(store), RunningTurns()
    app = create_app(engine, tokenizer, ChatPrompt(tokenizer), manager, running, model_name=name)
    expiry = asyncio.create_task(forget_the_old(manager, history_ttl))
    try:
        await serve(
            app,
            listening,
            engine=engine,
            running=running,
            limits=limits,
            ready=lambda: print(welcome(name, listening), flush=True),
        )
    finally:
        expiry.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await expiry
        await store.close()


async def forget_the_old(manager: SessionManager, history_ttl: float) -> None:
    """Drop stateless conversations that were not continued in time; sessions stay."""
    while True:
        await manager.expire(history_ttl)
        await asyncio.sleep(EXPIRY_SECONDS)


def welcome(name: str, listening: socket.socket) -> str:
    """What to do next."""
    host, port = listening.getsockname()[:2]
    url = f"http://{host}:{port}"
    chat = "chatserve chat" if port == 8000 else f"chatserve chat --url {url}"
    return (
        f"\n{name} is ready at {url}\n"
        f"  talk to it:  .venv/bin/{chat}\n"
        f"  or:          curl -N {url}/v1/chat/completions -H 'content-type: application/json' \\\n"
        """                 -d '{"messages": [{"role": "user", "content": "Hello!"}], "stream": true}'\n"""
    )
