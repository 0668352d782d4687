"""A server that is killed in the middle of turns."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sessions.manager import SessionManager
from sessions.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
SERVER = """
import asyncio, sys
from sessions.manager import SessionManager
from sessions.sqlite import SqliteStore
from sessions.turns import Message

async def session(manager, name):
    while True:
        async with manager.session("t", name, [Message("user", "q")]) as turn:
            number = len(turn.history) // 2
            await turn.save(range(500), range(500), f"{name} {number}", "completed")
        print(name, number, flush=True)

async def main():
    manager = SessionManager(await SqliteStore.open(sys.argv[1]))
    await asyncio.gather(*(session(manager, f"s{number}") for number in range(8)))

asyncio.run(main())
"""


@pytest.mark.parametrize("delay", [0.0, 0.11, 0.23])
async def test_a_killed_server_loses_no_turn_it_reported_and_keeps_no_half_of_any(path: Path, delay: float) -> None:
    """Killed twice, the second time over what the first one left."""
    reported: dict[str, int] = {}
    for _ in range(2):
        for line in run_and_kill(path, delay):
            name, number = line.split()
            assert int(number) - reported.get(name, -1) in (1, 2)  # one may have been stored and not reported
            reported[name] = int(number)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    store = await SqliteStore.open(path)
    for name, last in reported.items():
        async with SessionManager(store).session("t", name, []) as turn:
            answers = [message.content for message in turn.history[1::2]]
            assert answers == [f"{name} {n}" for n in range(len(answers))]
            assert len(answers) - 1 in (last, last + 1)
            assert len(turn.history_ids) == 1000 * len(answers)
    await store.close()


def run_and_kill(path: Path, delay: float) -> list[str]:
    """Let it report a turn, and a little more; returns all whole lines it reported."""
    command = [sys.executable, "-c", SERVER, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        first = server.stdout.readline()
        time.sleep(delay)
        server.send_signal(signal.SIGKILL)
        rest = server.stdout.read()
    return [line for line in (first + rest).splitlines(keepends=True) if line.endswith("\n")]


async def test_a_transaction_that_was_never_committed_is_not_there_after_a_kill(path: Path) -> None:
    await (await SqliteStore.open(path)).close()
    insert = "INSERT INTO conversations (id, tenant, session, created, used) VALUES (?, ?, ?, 0, 0)"
    code = (
        "import sqlite3, sys, time\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA cache_size = 1'); c.execute('BEGIN IMMEDIATE')\n"
        "for n in range(2000):\n"
        f"    c.execute({insert!r}, (str(n), 't' * 99, str(n)))\n"
        "print('written', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        writer.kill()
    store = await SqliteStore.open(path)
    manager = SessionManager(store)
    async with asyncio.timeout(5), manager.session("t" * 99, "1", []) as turn:
        await turn.save([1], [2], "a", "completed")
    assert turn.history == ()
    await store.close()
