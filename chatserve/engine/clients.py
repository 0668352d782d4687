"""Which request belongs to which of the engine's clients, each an API process with a connection of its own."""

from __future__ import annotations

from collections.abc import Iterable

from chatserve.engine.messages import Delta


class Clients:
    """Owners of requests. A client is known by the name of its connection; a request from its start to its Stop."""

    def __init__(self) -> None:
        self._owners: dict[str, bytes] = {}
        self._gone: set[bytes] = set()

    def __len__(self) -> int:
        """How many requests belong to somebody."""
        return len(self._owners)

    def take(self, client: bytes, request_id: str) -> bool:
        """Note a new request. False when another client's has this id, and when the client has gone already: what it
        said last may be read after the news of its end.
        """
        return client not in self._gone and self._owners.setdefault(request_id, client) == client

    def release(self, client: bytes, request_id: str) -> bool:
        """A client's request is over. False when it is not this client's."""
        if self._owners.get(request_id) != client:
            return False
        del self._owners[request_id]
        return True

    def leave(self, client: bytes) -> list[str]:
        """A client has gone; the requests that it leaves behind, of which it is told nothing more."""
        self._gone.add(client)
        left = [request_id for request_id, owner in self._owners.items() if owner == client]
        for request_id in left:
            del self._owners[request_id]
        return left

    def sort(self, deltas: Iterable[Delta]) -> dict[bytes, list[Delta]]:
        """What each client is to be told. What belongs to nobody any more is left out."""
        told: dict[bytes, list[Delta]] = {}
        for delta in deltas:
            owner = self._owners.get(delta.id)
            if owner is not None:
                told.setdefault(owner, []).append(delta)
        return told
