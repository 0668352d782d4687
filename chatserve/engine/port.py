"""How a server sees an engine, wherever that engine runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Protocol

from chatserve.engine.messages import Delta, EngineStats, Generate, MemoryPicture, PrefixMemory, Ready


class EngineError(Exception):
    """The root of what an engine can fail with, seen from the server."""


class EngineUnavailable(EngineError):
    """There is no engine to take the request now (starting, restarting or draining). Try again shortly."""


class EngineDied(EngineError):
    """The engine went away while this answer was being generated. The conversation can go on with a new turn."""


class GenerationStream(Protocol):
    """One answer under way."""

    def __aiter__(self) -> AsyncIterator[Delta]:
        """Yields deltas until one has `finish`; tokens of several steps come merged to a slow reader.

        Raises EngineDied.
        """
        ...

    def stop(self, keep: int | None = None) -> None:
        """End the answer; its first `keep` tokens were kept (None: all). Yields nothing more. Twice is harmless."""
        ...


class EnginePort(Protocol):
    """What every endpoint needs of an engine."""

    @property
    def info(self) -> Ready | None:
        """The model and limits once the engine has been ready; None before."""
        ...

    @property
    def alive(self) -> bool:
        """Whether a request submitted now would be taken."""
        ...

    def submit(self, request: Generate) -> GenerationStream:
        """Raises EngineUnavailable."""
        ...

    async def stats(self) -> EngineStats:
        """Raises EngineUnavailable."""
        ...

    async def flush(self) -> None:
        """Forget recorded prefixes, give memory back. Raises EngineUnavailable."""
        ...

    async def prefix(self, tenant: str, tokens: bytes) -> PrefixMemory:
        """What is recorded of these tokens, int32 little-endian; changes nothing. Raises EngineUnavailable."""
        ...

    async def warm(self, tenant: str, tokens: bytes) -> PrefixMemory:
        """Have a warm slot for who goes on from these tokens, if they are recorded; how it is then. Computes nothing.

        Raises EngineUnavailable.
        """
        ...

    async def picture(self, tenant: str, most: int, focus: Collection[str] = ()) -> MemoryPicture:
        """What this tenant has recorded, at most so many nodes of it; changes nothing.

        focus: labels whose leaves are in it however long they were not used. Raises EngineUnavailable.
        """
        ...
