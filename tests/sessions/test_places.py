"""Where `--sessions` may point."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessions.places import UnknownPlace, open_store
from sessions.sqlite import SqliteStore
from sessions.store import StoreUnavailable


async def test_a_plain_path_and_a_url_name_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "sessions.db"
    for place in (str(file), f"sqlite:///{file}"):
        store = await open_store(place)
        assert isinstance(store, SqliteStore)
        await store.close()
    assert file.exists()


async def test_a_sqlite_url_of_three_slashes_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    await (await open_store("sqlite:///sessions.db")).close()
    assert (tmp_path / "sessions.db").exists()


@pytest.mark.parametrize("place", ["postgres://user:word@host/db", "sqlite://file", "sqlite:///"])
async def test_a_place_of_another_kind_is_refused_without_its_password(place: str) -> None:
    with pytest.raises(UnknownPlace, match="sqlite:///file, or redis://host:port/db") as refusal:
        await open_store(place)
    assert "word" not in str(refusal.value)


async def test_a_url_that_cannot_be_read_is_refused_without_its_password() -> None:
    with pytest.raises(StoreUnavailable, match="names no Redis server") as refusal:
        await open_store("redis://user:word@host:port/0")
    assert "word" not in str(refusal.value)
