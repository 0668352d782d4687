"""Who is to know of a conversation what its routes do to it: whoever shows it live."""

from __future__ import annotations

from typing import Protocol


class Watching(Protocol):
    """conversation: its id as the store knows it; the caller has seen to it that it is the tenant's."""

    def running(self, conversation: str) -> str | None:
        """The id of the turn that this process makes in it now."""

    def renamed(self, conversation: str, title: str) -> None: ...

    def deleted(self, conversation: str) -> None: ...


class NobodyWatches:
    """A `Watching` for routes by themselves."""

    def running(self, conversation: str) -> str | None:
        del conversation
        return None

    def renamed(self, conversation: str, title: str) -> None:
        pass

    def deleted(self, conversation: str) -> None:
        pass
