"""What is special to a SQLite file."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from sessions.manager import SessionManager
from sessions.schema import MIGRATIONS
from sessions.sqlite import SqliteStore
from sessions.sqlite_reads import RECENT, one_moment
from sessions.store import BadRecord, NewerFormat, StoreClosed, StoreUnavailable
from sessions.turns import Message
from tests.sessions.examples import conversation, turn

Say = Callable[..., Coroutine[Any, Any, Any]]

Q = Message("user", "q")


@pytest.fixture
def kind() -> str:
    return "sqlite"


async def test_records_that_are_not_what_their_place_says_are_refused(store: SqliteStore, path: Path) -> None:
    """A29: no answer from a record that belongs elsewhere."""
    for name in ("c", "d"):
        await store.add(conversation(name, None), turn(f"{name}0", where=name))
        await store.add(conversation(name, None), turn(f"{name}1", f"{name}0", where=name))
    damages = {
        "does not continue": "UPDATE turns SET conversation = 'd' WHERE id = 'c0'",
        "cannot be read": "UPDATE turns SET prompt_ids = x'010203'",
        "unknown status": "UPDATE turns SET status = 'odd'",
    }
    with sqlite3.connect(path) as connection:
        for message, damage in damages.items():
            connection.execute(damage)
            connection.commit()
            with pytest.raises(BadRecord, match=message):
                await store.chain("c1")


async def test_an_unreadable_record_is_reported_without_its_text(store: SqliteStore, path: Path, talk: Say) -> None:
    """A40"""
    saved = await talk(SessionManager(store), "s", "q", "marker")
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE turns SET answer = CAST(x'6d61726b6572ff' AS TEXT)")
    with pytest.raises(StoreUnavailable) as failure:
        await store.chain(saved.id)
    assert "marker" not in str(failure.value)


async def test_a_file_of_a_newer_format_is_refused_by_name_and_left_alone(path: Path) -> None:
    await (await SqliteStore.open(path)).close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(NewerFormat, match=r"sessions\.db has format version 99.*up to 3: upgrade"):
        await SqliteStore.open(path)


async def test_an_older_file_is_brought_up_to_date_once(path: Path, monkeypatch: pytest.MonkeyPatch, talk: Say) -> None:
    store = await SqliteStore.open(path)
    await talk(SessionManager(store), "s", "q", "a")
    await store.close()
    newer = (*MIGRATIONS, ("ALTER TABLE conversations ADD COLUMN another TEXT",))
    monkeypatch.setattr("sessions.schema.MIGRATIONS", newer)
    for _ in range(2):
        store = await SqliteStore.open(path)
        found = await store.session("t", "s")
        assert found is not None
        assert len(await store.chain(found.leaf or "")) == 1
        await store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(newer),)


async def test_the_list_by_last_use_is_read_from_its_index_in_order(store: SqliteStore, path: Path) -> None:
    """However many conversations there are, a page of them costs what it shows."""
    await store.close()
    with sqlite3.connect(path) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {RECENT}", ("t", 1.0, "c", 40)).fetchall()
    assert [step[-1] for step in plan] == [
        "SEARCH conversations USING INDEX conversations_by_use (tenant=? AND (used,id)<(?,?))"
    ]


async def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await (await SqliteStore.open(path)).close()
    bad = (*MIGRATIONS, ("CREATE TABLE extra (id)", "CREATE TABLE turns (id)"))
    monkeypatch.setattr("sessions.schema.MIGRATIONS", bad)
    with pytest.raises(StoreUnavailable, match="already exists"):
        await SqliteStore.open(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
        assert connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'extra'").fetchone() == (0,)


async def test_a_new_file_can_be_opened_many_times_at_once(path: Path, talk: Say) -> None:
    stores = await asyncio.gather(*(SqliteStore.open(path) for _ in range(8)))
    for number, store in enumerate(stores):
        await talk(SessionManager(store), str(number), "q", "a")
    await asyncio.gather(*(store.close() for store in stores))


async def test_what_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("this is not a database, however long its text may be " * 9)
    for path in (tmp_path, tmp_path / "file", tmp_path / "file" / "below.db"):
        with pytest.raises(StoreUnavailable):
            await SqliteStore.open(path)


async def test_only_the_owner_can_read_the_files(store: SqliteStore, path: Path, talk: Say) -> None:
    await talk(SessionManager(store), "s", "q", "a")
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()} == {0o600}
    assert len(list(path.parent.iterdir())) == 4


async def test_a_closed_store_says_so_and_leaves_no_thread(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.close()
    await store.close()
    with pytest.raises(StoreClosed):
        await store.chain("x")
    deadline = time.monotonic() + 5
    while any(thread.name.startswith("sessions-") for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_a_write_whose_caller_is_cancelled_while_it_waits_in_line_is_done_all_the_same(
    store: SqliteStore, path: Path
) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writes = [asyncio.create_task(store.add(conversation(), turn(name))) for name in "xyz"]
    await asyncio.sleep(0.01)
    for write in writes:
        write.cancel()
    await asyncio.gather(*writes, return_exceptions=True)
    other.execute("ROLLBACK")
    other.close()
    await store.expire(0.0, [])  # behind them in the same line
    assert [await store.find("t", [name.encode()]) for name in "xyz"] == [[turn(name)] for name in "xyz"]


async def test_reads_go_on_and_turns_wait_while_another_program_writes(
    store: SqliteStore, path: Path, talk: Say
) -> None:
    """A33: the event loop stays free meanwhile."""
    manager = SessionManager(store)
    first = await talk(manager, "s", "q", "a")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE conversations SET used = 0")
    waiting = [asyncio.create_task(talk(manager, str(number), "q", "a")) for number in range(5)]
    for _ in range(10):
        assert await store.chain(first.id) == [first]
        await asyncio.sleep(0.01)
    assert not any(task.done() for task in waiting)
    other.execute("COMMIT")
    other.close()
    for saved in await asyncio.gather(*waiting):
        assert await store.chain(saved.id) == [saved]


async def test_a_turn_is_recorded_once_though_saving_fails_and_can_be_saved_again(path: Path) -> None:
    """A33: another program holds the file for longer than we wait; the caller is told."""
    store, kept = await SqliteStore.open(path, busy_timeout=0.05), list[int]()
    async with SessionManager(store).session("t", "s", [Q]) as opened:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            await opened.save([1], [2], "a", "completed", kept.append)
        other.execute("COMMIT")
        other.close()
        saved = await opened.save([1], [2], "a", "completed", kept.append)
    assert kept == [1]
    assert await store.chain(saved.id) == [saved]
    await store.close()


def test_a_disk_that_fails_in_the_middle_of_a_read_is_what_is_told() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)

    def read() -> None:
        with one_moment(connection):
            connection.rollback()  # as SQLite does then
            raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
        read()
    connection.close()
