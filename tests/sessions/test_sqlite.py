"""The store's own promises, on a real file."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
import time
from array import array
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.manager import SessionManager
from sessions.rows import check_chain, turn_from_row, turn_to_row
from sessions.schema import MIGRATIONS
from sessions.sqlite import SqliteStore
from sessions.store import BadRecord, NewerFormat, NotFound, StoreClosed, StoreUnavailable, TurnConflict
from sessions.turns import Conversation, Message, Turn

Say = Callable[..., Coroutine[Any, Any, Any]]

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=5).map(lambda ids: array("i", ids))
TEXT = st.text(max_size=9)
MESSAGES = st.lists(st.builds(Message, TEXT, TEXT, st.none() | TEXT), max_size=3).map(tuple)


def conversation(name: str = "c", session: str | None = "s") -> Conversation:
    return Conversation(id=name, tenant="t", created=1.0, used=1.0, session=session)


def turn(name: str, parent: str | None = None, *, where: str = "c", answer: str = "a") -> Turn:
    return Turn(
        id=name,
        conversation=where,
        parent=parent,
        digest=name.encode(),
        messages=(Message("user", name),),
        answer=answer,
        prompt_ids=array("i", [1]),
        output_ids=array("i", [2]),
        restarts=False,
        status="completed",
        created=2.0,
    )


@given(MESSAGES, TEXT, IDS, IDS, st.booleans())
def test_a_turn_comes_back_from_its_row_as_it_was(
    messages: tuple[Message, ...], answer: str, prompt: array[int], output: array[int], restarts: bool
) -> None:
    before = Turn(
        id="x",
        conversation="c",
        parent=None,
        digest=b"\0\xff",
        messages=messages,
        answer=answer,
        prompt_ids=prompt,
        output_ids=output,
        restarts=restarts,
        status="cancelled",
        created=0.5,
    )
    with sqlite3.connect(":memory:") as connection:
        places = ", ".join("?" * 14)
        assert turn_from_row(connection.execute(f"SELECT {places}", turn_to_row(before)).fetchone()) == before


async def test_the_same_turn_twice_is_stored_once_and_another_under_its_id_is_refused(store: SqliteStore) -> None:
    """A33"""
    for _ in range(2):
        await store.advance(conversation(), turn("x"))
        await store.add(conversation(), turn("x"))
    with pytest.raises(TurnConflict, match="stored as x"):
        await store.advance(conversation(), turn("x", answer="another"))
    assert await store.chain("x") == [turn("x")]


async def test_a_session_moves_on_from_its_leaf_only_and_a_refused_turn_is_not_stored(store: SqliteStore) -> None:
    """A31: a second writer of the same file cannot overwrite what it has not seen."""
    await store.advance(conversation(), turn("x"))
    await store.advance(conversation(), turn("y", "x"))
    with pytest.raises(TurnConflict, match="went on from x"):
        await store.advance(conversation(), turn("z", "x"))
    with pytest.raises(TurnConflict, match="refused"):
        await store.advance(conversation("other"), turn("root", where="other"))
    for name in ("z", "root"):
        with pytest.raises(NotFound):
            await store.chain(name)
    found = await store.session("t", "s", 9.0)
    assert found is not None
    assert (found.id, found.leaf, found.used) == ("c", "y", 2.0)


async def test_a_turn_continues_a_turn_of_its_own_conversation_only(store: SqliteStore) -> None:
    await store.add(conversation(), turn("x"))
    await store.add(conversation("d", None), turn("y", where="d"))
    for parent in ("nothing", "y"):
        with pytest.raises(NotFound, match=f"turn {parent} of conversation c is gone"):
            await store.add(conversation(), turn("z", parent))
    with pytest.raises(TurnConflict, match="refused"):
        await store.add(conversation(), turn("z", "z"))


async def test_what_is_not_there_is_said_to_be_not_there(store: SqliteStore) -> None:
    assert await store.conversation("c") is None
    assert await store.session("t", "s", 1.0) is None
    assert await store.find("t", [b"x"]) == []
    with pytest.raises(NotFound, match="no turn x"):
        await store.chain("x")


async def test_a_turn_is_found_by_its_own_tenant_only_even_if_two_digests_were_equal(store: SqliteStore) -> None:
    """A02"""
    await store.add(conversation(), turn("x"))
    assert await store.find("t", [b"y", b"x"]) == [turn("x")]
    assert await store.find("another", [b"y", b"x"]) == []


@pytest.mark.parametrize(
    "chain",
    [
        [turn("x"), turn("z", "x")],
        [turn("y", "x")],
        [turn("x"), turn("y")],
        [turn("x"), turn("y", "x", where="d")],
    ],
)
def test_a_chain_that_is_not_the_one_asked_for_is_refused(chain: list[Turn]) -> None:
    """A29"""
    with pytest.raises(BadRecord):
        check_chain(chain, "y")


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
    with pytest.raises(NewerFormat, match=r"sessions\.db has format version 99.*up to 2: upgrade"):
        await SqliteStore.open(path)


async def test_an_older_file_is_brought_up_to_date_once(path: Path, monkeypatch: pytest.MonkeyPatch, talk: Say) -> None:
    store = await SqliteStore.open(path)
    await talk(SessionManager(store), "s", "q", "a")
    await store.close()
    newer = (*MIGRATIONS, ("ALTER TABLE conversations ADD COLUMN another TEXT",))
    monkeypatch.setattr("sessions.schema.MIGRATIONS", newer)
    for _ in range(2):
        store = await SqliteStore.open(path)
        found = await store.session("t", "s", 1.0)
        assert found is not None
        assert len(await store.chain(found.leaf or "")) == 1
        await store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(newer),)


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


async def test_twenty_sessions_finish_together_while_a_page_is_polled(store: SqliteStore, talk: Say) -> None:
    """A33: none lost, none doubled, order kept, and a reader sees whole turns only."""
    manager, done = SessionManager(store), False

    async def poll() -> int:
        seen = 0
        while not done:
            for number in range(20):
                found = await store.session("t", str(number), 1.0)
                seen += len(await store.chain(found.leaf)) if found and found.leaf else 0
        return seen

    async def session(name: str) -> None:
        for number in range(10):
            await talk(manager, name, f"{name} {number}", "a")

    reader = asyncio.create_task(poll())
    await asyncio.gather(*(session(str(number)) for number in range(20)))
    done = True
    assert await reader > 0
    for name in range(20):
        async with manager.session("t", str(name), []) as turn:
            assert [m.content for m in turn.history[::2]] == [f"{name} {number}" for number in range(10)]


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
