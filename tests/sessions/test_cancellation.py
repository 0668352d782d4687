"""A client that leaves at any moment: a turn is whole or absent, and its session goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from sessions.manager import SessionManager
from sessions.places import open_store
from sessions.sqlite import SqliteStore
from sessions.store import Store
from sessions.turns import Message

Say = Callable[..., Coroutine[Any, Any, Any]]

Q, A, Q2 = Message("user", "q"), Message("assistant", "a"), Message("user", "q2")


class Halting:
    """A real store that halts before or after its n-th call until it is let go on."""

    def __init__(self, store: Store, call: int, *, after: bool) -> None:
        self._store = store
        self.holds = store.holds
        self._left = call
        self._after = after
        self.reached = asyncio.Event()
        self.resume = asyncio.Event()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            halts = self._left == 0
            self._left -= 1
            if halts and not self._after:
                await self._halt()
            result = await getattr(self._store, name)(*args, **kwargs)
            if halts and self._after:
                await self._halt()
            return result

        return call

    async def _halt(self) -> None:
        self.reached.set()
        await self.resume.wait()


async def answer(opening: Any, kept: list[int], *, started: list[bool]) -> None:
    """What the server does for one turn: also when it is cancelled, what was seen is saved."""
    async with opening as turn:
        started.append(True)
        try:
            await asyncio.sleep(0)
            await turn.save([1], [2, 3], "b", "completed", kept.append)
        except asyncio.CancelledError:
            await turn.save([1], [2], "b?", "cancelled", kept.append)
            raise


@pytest.mark.parametrize("opens", ["session", "stateless", "turn_at"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", range(4))
async def test_a_turn_cancelled_at_any_call_of_the_store_is_whole_or_absent(
    store: Store, talk: Say, opens: str, after: bool, call: int
) -> None:
    first = await talk(SessionManager(store), "s", "q", "a")
    halting = Halting(store, call, after=after)
    manager = SessionManager(cast(Store, halting))
    opening = {
        "session": manager.session("t", "s", [Q2]),
        "stateless": manager.stateless("t", [Q, A, Q2]),
        "turn_at": manager.turn_at("t", first.conversation, first.id, [Q2]),
    }[opens]
    kept, started = list[int](), list[bool]()
    task = asyncio.create_task(answer(opening, kept, started=started))
    halted = asyncio.create_task(halting.reached.wait())
    await asyncio.wait((task, halted), return_when=asyncio.FIRST_COMPLETED)
    halted.cancel()
    task.cancel()
    halting.resume.set()
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    assert halting.reached.is_set() == isinstance(outcome, asyncio.CancelledError)

    digest = SessionManager(store)._digests
    asked = digest.extend(first.digest, [Q2, Message("assistant", "b")])
    stored = await store.find("t", [asked])
    assert bool(stored) == len(kept) == len(started)
    assert len(manager._gate) == len(store.holds) == 0
    async with asyncio.timeout(5), manager.session("t", "s", []) as following:
        moved = bool(started) and opens != "stateless"
        assert len(following.history) == (4 if moved else 2)


async def test_a_turn_cancelled_at_any_moment_saves_what_was_seen(place: str) -> None:
    """The same, by time: each try is cancelled one round of the event loop later than the last."""
    store = await open_store(place)
    manager, expected = SessionManager(store), 0
    for rounds in range(150):
        kept, started = list[int](), list[bool]()
        task = asyncio.create_task(answer(manager.session("t", "s", [Q]), kept, started=started))
        for _ in range(rounds):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(kept) == len(started)
        expected += len(kept)
        async with manager.session("t", "s", []) as turn:
            assert len(turn.history) == 2 * expected
    await store.close()


async def test_a_cancelled_save_returns_only_when_the_turn_is_stored_and_recorded(store: Store) -> None:
    halting = Halting(store, 1, after=False)
    manager, kept = SessionManager(cast(Store, halting)), list[int]()
    task = asyncio.create_task(answer(manager.session("t", "s", [Q]), kept, started=[]))
    await halting.reached.wait()
    following = asyncio.create_task(answer(manager.session("t", "s", [Q2]), kept, started=[]))
    for _ in range(5):  # an impatient framework cancels again and again
        task.cancel()
        await asyncio.sleep(0)
    assert kept == [2]
    assert not task.done()
    assert not following.done()
    halting.resume.set()
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError)
    await following
    async with manager.session("t", "s", []) as turn:
        assert [message.content for message in turn.history] == ["q", "b", "q2", "b"]


async def test_a_turn_that_waits_for_its_session_can_be_cancelled(manager: SessionManager, talk: Say) -> None:
    async with manager.session("t", "s", [Q]) as turn:
        waiting = asyncio.create_task(talk(manager, "s", "never asked", "a"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await turn.save([1], [2], "a", "completed")
    async with asyncio.timeout(5), manager.session("t", "s", []) as after:
        assert after.history == (Q, A)


def test_the_end_of_the_event_loop_does_not_lose_a_turn_that_is_being_saved(path: Path) -> None:
    async def leave() -> None:
        store = await SqliteStore.open(path)
        manager = SessionManager(store)
        kept = list[int]()
        task = asyncio.create_task(answer(manager.session("t", "s", [Q]), kept, started=[]))
        while not kept:
            await asyncio.sleep(0)
        assert not task.done()

    async def look() -> int:
        store = await SqliteStore.open(path)
        async with SessionManager(store).session("t", "s", []) as turn:
            length = len(turn.history)
        await store.close()
        return length

    for _ in range(5):
        asyncio.run(leave())
    assert asyncio.run(look()) == 10
