"""Where an answer goes when it has ended: into its conversation, or nowhere."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Protocol

from sessions.open_turn import OpenTurn
from sessions.turns import Status


class Recorder(Protocol):
    async def save(self, output_ids: Iterable[int], answer: str, status: Status) -> None:
        """Keep the answer as the user saw it. Raises StoreError."""


class Forget:
    """For an answer that belongs to no conversation."""

    async def save(self, output_ids: Iterable[int], answer: str, status: Status) -> None:
        pass


class Append:
    """For a prompt that is the conversation's ids and then `new_ids`."""

    def __init__(self, opened: OpenTurn, new_ids: array[int]) -> None:
        self._opened = opened
        self._new_ids = new_ids

    async def save(self, output_ids: Iterable[int], answer: str, status: Status) -> None:
        await self._opened.save(self._new_ids, output_ids, answer, status)


class Rewrite:
    """For a prompt whose template rendered the whole conversation anew as `whole_ids`."""

    def __init__(self, opened: OpenTurn, whole_ids: array[int]) -> None:
        self._opened = opened
        self._whole_ids = whole_ids

    async def save(self, output_ids: Iterable[int], answer: str, status: Status) -> None:
        await self._opened.save_whole(self._whole_ids, output_ids, answer, status)
