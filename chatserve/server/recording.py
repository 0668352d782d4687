"""Where an answer goes when it has ended: into its conversation, or nowhere."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from typing import Protocol

from chatserve.server.wire import Usage
from sessions.open_turn import OpenTurn
from sessions.turns import Status

Detail = Callable[[Usage], bytes]
"""What an endpoint keeps with an answer, as JSON, once it is known what the answer took."""


def no_detail(_usage: Usage) -> bytes:
    return b""


class Recorder(Protocol):
    async def save(self, output_ids: Iterable[int], answer: str, status: Status, usage: Usage) -> None:
        """Keep the answer as the user saw it. Raises StoreError."""


class Forget:
    """For an answer that belongs to no conversation."""

    async def save(self, output_ids: Iterable[int], answer: str, status: Status, usage: Usage) -> None:
        pass


class Append:
    """For a prompt that is the conversation's ids and then `new_ids`."""

    def __init__(self, opened: OpenTurn, new_ids: array[int], detail: Detail) -> None:
        self._opened = opened
        self._new_ids = new_ids
        self._detail = detail

    async def save(self, output_ids: Iterable[int], answer: str, status: Status, usage: Usage) -> None:
        await self._opened.save(self._new_ids, output_ids, answer, status, detail=self._detail(usage))


class Rewrite:
    """For a prompt whose template rendered the whole conversation anew as `whole_ids`."""

    def __init__(self, opened: OpenTurn, whole_ids: array[int], detail: Detail) -> None:
        self._opened = opened
        self._whole_ids = whole_ids
        self._detail = detail

    async def save(self, output_ids: Iterable[int], answer: str, status: Status, usage: Usage) -> None:
        await self._opened.save_whole(self._whole_ids, output_ids, answer, status, detail=self._detail(usage))
