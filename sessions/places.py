"""From the place where conversations are to be kept, as an operator writes it, to the store there."""

from __future__ import annotations

from pathlib import Path

from sessions.redis import RedisStore
from sessions.sqlite import SqliteStore
from sessions.store import Store, StoreError

REDIS = ("redis", "rediss", "unix")


class UnknownPlace(StoreError):
    """A URL of a kind that no store is for."""

    def __init__(self, scheme: str) -> None:
        super().__init__(
            f"there is no session store for {scheme}://; write a file's path, sqlite:///file, or redis://host:port/db"
        )


async def open_store(place: str) -> Store:
    """`redis://`, `rediss://`, `unix://`; `sqlite:///file` (`sqlite:////file` from the root), or a plain path. Raises
    StoreError, which never quotes a URL: it may hold a password.
    """
    scheme, found, rest = place.partition("://")
    if not found:
        return await SqliteStore.open(Path(place))
    if scheme in REDIS:
        return await RedisStore.open(place)
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return await SqliteStore.open(Path(rest[1:]))
    raise UnknownPlace(scheme)
