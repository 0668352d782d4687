"""Writes that wait together are committed together, and each stands or falls alone."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from sessions.lane import MOST_TOGETHER, Lane
from sessions.schema import connect_writer
from sessions.store import NotFound, StoreUnavailable


def insert(connection: sqlite3.Connection, name: str, *, fails: bool = False) -> str:
    connection.execute("INSERT INTO conversations (id, tenant, created, used) VALUES (?, 't', 0, 0)", (name,))
    if fails:
        raise NotFound("no")
    return name


def names(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM conversations ORDER BY rowid")]


@pytest.fixture
async def lane(path: Path) -> AsyncIterator[Lane]:
    lane = Lane("lane", partial(connect_writer, path, 0.1))
    await lane.run(lambda _: None)
    yield lane
    await lane.close()


async def test_what_fails_in_a_group_is_undone_alone(lane: Lane, path: Path) -> None:
    writes = [lane.write(insert, str(number), fails=number % 3 == 0) for number in range(9)]
    writes.append(lane.write(insert, "1"))  # a second of this name
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == 3 * [NotFound, str, str] + [StoreUnavailable]
    assert names(path) == ["1", "2", "4", "5", "7", "8"]


async def test_writes_that_wait_together_share_commits_in_their_order(lane: Lane, path: Path) -> None:
    commits = list[str]()
    await lane.run(lambda connection: connection.set_trace_callback(commits.append))
    blocker = asyncio.create_task(lane.run(lambda _: time.sleep(0.05)))
    await asyncio.sleep(0)
    count = MOST_TOGETHER + 5
    assert await asyncio.gather(*(lane.write(insert, f"{n:03}") for n in range(count))) == names(path)
    await blocker
    assert commits.count("COMMIT") == 2


async def test_when_the_transaction_itself_fails_nobody_is_told_otherwise(lane: Lane, path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    outcomes = await asyncio.gather(*(lane.write(insert, str(n)) for n in range(3)), return_exceptions=True)
    other.execute("ROLLBACK")
    other.close()
    assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
    assert names(path) == []
    assert await lane.write(insert, "after") == "after"


async def test_when_sqlite_gives_up_the_transaction_all_of_it_is_reported_lost(lane: Lane, path: Path) -> None:
    def give_up(connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    writes = (lane.write(insert, "a"), lane.write(give_up), lane.write(insert, "b"))
    blocker = asyncio.create_task(lane.run(lambda _: time.sleep(0.05)))
    await asyncio.sleep(0)
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    await blocker
    assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
    assert names(path) == []
