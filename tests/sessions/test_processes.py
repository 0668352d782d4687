"""Several processes on one store: turns of a session never interleave, and what one process uses no other removes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sessions.gate import SessionBusy
from sessions.manager import SessionManager
from sessions.places import open_store
from sessions.store import Store
from sessions.turns import Message

Say = Callable[..., Coroutine[Any, Any, Any]]

ROOT = Path(__file__).parents[2]
Q, A, Q2 = Message("user", "q"), Message("assistant", "a"), Message("user", "q2")
TURNS = 15

TALKER = """
import asyncio, sys
from sessions.manager import SessionManager
from sessions.places import open_store
from sessions.turns import Message

async def main(path, name, turns):
    manager = SessionManager(await open_store(path), max_waiting=100)

    async def turn(number):
        async with manager.session("t", "s", [Message("user", f"{name} {number}")]) as turn:
            await asyncio.sleep(0.03)
            await turn.save([len(turn.history)], [1], "a", "completed")

    print("open", flush=True)
    sys.stdin.readline()
    await asyncio.gather(*map(turn, range(turns)))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""
HOLDER = """
import asyncio, sys
from sessions.manager import SessionManager
from sessions.places import open_store
from sessions.turns import Message

async def main(path, kind):
    manager = SessionManager(await open_store(path))
    messages = [Message("user", "q"), Message("assistant", "a"), Message("user", "held")]
    opening = manager.session("t", "s", messages[2:]) if kind == "session" else manager.stateless("t", messages)
    async with opening as turn:
        print(len(turn.history), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await turn.save([1], [2], "held answer", "completed")

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def other(place: str, store: Store) -> AsyncIterator[Store]:
    """A second opening of the same file; to its locks it is like another process."""
    assert store.holds is not None
    other = await open_store(place)
    yield other
    await other.close()


@contextmanager
def holder(place: str, opens: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has opened a turn and does not end it until it reads a line."""
    command = [sys.executable, "-c", HOLDER, place, opens]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
        process.kill()


async def test_turns_of_one_session_from_two_processes_never_interleave_and_none_is_lost(place: str) -> None:
    commands = [[sys.executable, "-c", TALKER, place, name, str(TURNS)] for name in ("one", "two")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    talkers = [subprocess.Popen(command, cwd=ROOT, **pipes) for command in commands]
    for talker in talkers:
        assert talker.stdout.readline() == b"open\n"
    for talker in talkers:
        talker.stdin.write(b"\n")
        talker.stdin.flush()
    assert [await asyncio.to_thread(talker.wait, 60) for talker in talkers] == [0, 0]
    store = await open_store(place)
    async with SessionManager(store).session("t", "s", [Q]) as turn:
        asked = [message.content for message in turn.history[::2]]
    await store.close()
    for name in ("one", "two"):
        assert [said for said in asked if said.startswith(name)] == [f"{name} {n}" for n in range(TURNS)], "in order"
    assert len(asked) == 2 * TURNS
    switches = sum(before.split()[0] != after.split()[0] for before, after in pairwise(asked))
    assert switches > 3, "neither keeps the other out while it has turns of its own waiting"


async def test_a_session_waits_for_a_turn_of_another_process(place: str, manager: SessionManager, talk: Say) -> None:
    await talk(manager, "s", "q", "a")
    with holder(place, "session") as process:
        waiting = asyncio.create_task(talk(manager, "s", "next", "b"))
        await talk(manager, "another", "q", "a")
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        await asyncio.wait_for(waiting, 10)
    async with manager.session("t", "s", [Q2]) as after:
        assert [m.content for m in after.history] == ["q", "a", "held", "held answer", "next", "b"]


async def test_a_turn_of_another_process_is_seen_while_it_runs_and_keeps_out_who_does_not_wait(
    place: str, manager: SessionManager, store: Store, talk: Say
) -> None:
    saved = await talk(manager, "s", "q", "a")
    found = await store.conversation(saved.conversation)
    assert found is not None
    with holder(place, "session") as process:
        assert await manager.running("t", [found]) == {found.id}
        with pytest.raises(SessionBusy):
            async with manager.turn_at("t", found.id, saved.id, [Q2], wait=False):
                pass
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert await asyncio.to_thread(process.wait, 10) == 0
    assert await manager.running("t", [found]) == set()
    async with manager.turn_at("t", found.id, saved.id, [Q2], wait=False) as opened:
        branch = await opened.save([1], [2], "b", "completed")
    _, turns = await manager.catalogue.turns("t", found.id)
    assert [each.answer for each in turns] == ["a", "held answer", "b"], "what the other process saved is there"
    assert branch.parent == saved.id


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_process_that_is_killed_lets_go_of_its_session_at_once(
    place: str, manager: SessionManager, talk: Say
) -> None:
    await talk(manager, "s", "q", "a")
    with holder(place, "session") as process:
        process.send_signal(signal.SIGKILL)
        async with asyncio.timeout(5), manager.session("t", "s", [Q2]) as turn:
            assert turn.history == (Q, A)


async def test_a_waiter_that_is_cancelled_leaves_nothing_behind(
    manager: SessionManager, other: Store, store: Store, talk: Say
) -> None:
    elsewhere = SessionManager(other)
    async with elsewhere.session("t", "s", [Q]):
        waiting = asyncio.create_task(talk(manager, "s", "q", "a"))
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert len(store.holds) == 0
    await talk(elsewhere, "s", "q", "a")
    await talk(manager, "s", "q2", "b")


async def test_stateless_turns_of_one_conversation_wait_for_nobody_in_any_process(
    manager: SessionManager, other: Store, ask: Say
) -> None:
    await ask(manager, (Q,), "a")
    async with manager.stateless("t", [Q, A, Q2]), SessionManager(other).stateless("t", [Q, A, Q2]) as second:
        assert second.history == (Q, A)


async def test_no_process_removes_a_conversation_that_another_one_uses(place: str, store: Store, ask: Say) -> None:
    now = 1e12
    manager = SessionManager(store, clock=lambda: now)
    root, _ = await ask(manager, (Q,), "a")
    with holder(place, "stateless") as process:
        now += 1e12
        assert await manager.expire(older_than=1.0) == 0
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert await asyncio.to_thread(process.wait, 10) == 0
    held = (Q, A, Message("user", "held"), Message("assistant", "held answer"), Q2)
    async with manager.stateless("t", held) as turn:
        assert turn.conversation.id == root.conversation
        assert len(turn.history) == 4, "its turn was saved"
    now += 1e12
    assert await manager.expire(older_than=1.0) == 1


async def test_what_several_processes_expire_at_once_is_deleted_once(store: Store, other: Store, ask: Say) -> None:
    now = 0.0
    managers = [SessionManager(each, clock=lambda: now) for each in (store, other)]
    for number in range(200):
        await ask(managers[0], (Message("user", str(number)),), "a")
    now = 100.0
    first = sum(await asyncio.gather(*(manager.expire(older_than=1.0) for manager in managers)))
    assert first + await managers[0].expire(older_than=1.0) == 200
