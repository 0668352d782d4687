"""One at a time for each key, in order, bounded, and nothing left behind."""

from __future__ import annotations

import asyncio

import pytest

from sessions.gate import Gate, SessionBusy


async def turns(count: int) -> None:
    """Let the event loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_those_who_wait_enter_in_the_order_of_their_arrival_and_never_two_at_once() -> None:
    gate, order, inside = Gate(max_waiting=9), list[int](), 0

    async def visit(number: int) -> None:
        nonlocal inside
        async with gate.enter("key"):
            inside += 1
            assert inside == 1
            await turns(3)
            order.append(number)
            inside -= 1

    await asyncio.gather(*(visit(number) for number in range(10)))
    assert order == list(range(10))


async def test_one_more_than_may_wait_is_refused_at_once_and_others_are_not_disturbed() -> None:
    gate = Gate(max_waiting=1)

    async def visit() -> None:
        async with gate.enter("key"):
            await turns(5)

    first, second = asyncio.create_task(visit()), asyncio.create_task(visit())
    await turns(1)
    with pytest.raises(SessionBusy, match="1 more are waiting"):
        await visit()
    async with gate.enter("another key"):
        pass
    await asyncio.gather(first, second)
    await visit()


async def test_one_who_does_not_wait_enters_at_once_or_is_refused_and_keeps_nobody_out() -> None:
    gate = Gate(max_waiting=1)
    async with gate.enter("key", wait=False):
        with pytest.raises(SessionBusy, match="is running: send"):
            async with gate.enter("key", wait=False):
                pass
        waiting = asyncio.create_task(gate.enter("key").__aenter__())
        await turns(2)
        assert not waiting.done()
    await waiting
    assert len(gate) == 1


async def test_a_cancelled_waiter_leaves_the_line_and_the_next_one_enters() -> None:
    gate, order = Gate(max_waiting=2), list[str]()

    async def visit(name: str) -> None:
        async with gate.enter("key"):
            await turns(5)
            order.append(name)

    tasks = [asyncio.create_task(visit(name)) for name in ("first", "second", "third")]
    await turns(2)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["first", "third"]
    assert len(gate) == 0


async def test_keys_that_come_and_go_leave_nothing_behind() -> None:
    gate = Gate(max_waiting=1)

    async def visit(key: int) -> None:
        async with gate.enter(key):
            await turns(key % 3)

    await asyncio.gather(*(visit(key) for key in range(500)))
    assert len(gate) == 0
