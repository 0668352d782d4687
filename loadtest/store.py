"""What keeping a turn costs: conversations opened, and finished, all at one moment, on SQLite and on a local Redis.

python loadtest/store.py
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import statistics
import subprocess
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from loadtest.report import keep, options
from sessions.manager import SessionManager
from sessions.open_turn import OpenTurn
from sessions.places import open_store
from sessions.turns import Message

TOGETHER = 20
ROUNDS = 40
"""Turns of each conversation; its past grows by one each round."""
PROMPT, ANSWER = array("i", range(40)), array("i", range(260))
TEXT = "a word and " * 100


async def measure(place: str, together: int) -> dict[str, float]:
    """Milliseconds for one turn, from before its call to after it, of all turns of all rounds."""
    store = await open_store(place)
    manager = SessionManager(store)
    opens, saves, whole = list[float](), list[float](), list[float]()

    async def opened(held: AsyncExitStack, name: str) -> OpenTurn:
        began = time.perf_counter()
        turn = await held.enter_async_context(manager.session("t", name, [Message("user", "and then?")]))
        opens.append(time.perf_counter() - began)
        return turn

    async def saved(turn: OpenTurn) -> None:
        began = time.perf_counter()
        await turn.save(PROMPT, ANSWER, TEXT, "completed")
        saves.append(time.perf_counter() - began)

    for _ in range(ROUNDS):
        async with AsyncExitStack() as held:
            began = time.perf_counter()
            turns = await asyncio.gather(*(opened(held, str(name)) for name in range(together)))
            await asyncio.gather(*map(saved, turns))
            whole.append((time.perf_counter() - began) / together)
    await store.close()
    return {
        "open_ms_p50": p50(opens),
        "open_ms_p95": p95(opens),
        "save_ms_p50": p50(saves),
        "save_ms_p95": p95(saves),
        "open_and_save_ms_a_turn": p50(whole),
    }


def p50(seconds: Sequence[float]) -> float:
    return round(1e3 * statistics.median(seconds), 2)


def p95(seconds: Sequence[float]) -> float:
    return round(1e3 * statistics.quantiles(seconds, n=20)[-1], 2)


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """A server of its own on a free port, with its journal on; its URL. Raises FileNotFoundError when there is none."""
    program = shutil.which("redis-server")
    if program is None:
        raise FileNotFoundError("redis-server is not installed: apt-get install redis-server")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--appendonly", "yes"]
    with subprocess.Popen([*command, "--save", ""], stdout=subprocess.DEVNULL) as server:
        yield f"redis://127.0.0.1:{port}/0"
        server.terminate()


def main() -> None:
    chosen = options(__doc__, "store").parse_args()
    figures: dict[str, Any] = {"rounds": ROUNDS, "tokens_a_turn": len(PROMPT) + len(ANSWER), "text_bytes": len(TEXT)}
    for together in (1, TOGETHER):
        with TemporaryDirectory() as folder:
            figures[f"sqlite_{together}"] = uvloop.run(measure(f"sqlite:///{folder}/sessions.db", together))
        with TemporaryDirectory() as folder, redis_server(Path(folder)) as url:
            figures[f"redis_{together}"] = uvloop.run(measure(url, together))
    keep(chosen.out, figures)


if __name__ == "__main__":
    main()
