"""What the server keeps for this client: its conversations, what was said in each, and the memory they hold."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar
from urllib.parse import quote

import httpx
import msgspec

from chatserve.terminal.conversation import Said, speaking
from chatserve.terminal.events import AnswerFailed, reason

PAGE = 100
SHOWN = 20
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
T = TypeVar("T")


class Kept(msgspec.Struct):
    """A conversation on the server."""

    id: str
    created_at: int
    metadata: dict[str, str] = {}

    @property
    def title(self) -> str:
        return self.metadata.get("title", "(no title)")


class _Page(msgspec.Struct):
    data: list[Kept]


class _Part(msgspec.Struct):
    text: str = ""


class _Item(msgspec.Struct):
    role: str
    content: list[_Part]


class _Items(msgspec.Struct):
    data: list[_Item]
    last_id: str | None
    has_more: bool


class _Stopped(msgspec.Struct):
    at: int
    why: str


class Memory(msgspec.Struct):
    """Of one conversation, now."""

    tokens: int
    recorded_tokens: int
    physical_bytes: int
    private_bytes: int
    shared_bytes: int
    warm: bool = False
    stopped: _Stopped | None = None

    def __str__(self) -> str:
        warm = ", its slot warm" if self.warm else ""
        parts = [
            f"{self.recorded_tokens} of {self.tokens} tokens in memory{warm}",
            f"{_size(self.physical_bytes)}: {_size(self.private_bytes)} its own, {_size(self.shared_bytes)} shared",
        ]
        if self.stopped is not None:
            parts.append(f"no more because: {self.stopped.why.replace('_', ' ')} (at token {self.stopped.at})")
        return "\n".join(parts)


class Shelf:
    """All of it raises AnswerFailed and ServerNotThere."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def conversations(self) -> list[Kept]:
        """The newest ones, newest first."""
        return (await self._get("/v1/conversations", _Page, limit=SHOWN)).data

    async def conversation(self, name: str) -> Kept:
        return await self._get(f"/v1/conversations/{quote(name, safe='')}", Kept)

    async def said(self, name: str) -> Said:
        """All messages of a conversation, the first one first."""
        messages: list[tuple[str, str]] = []
        asked: dict[str, str | int] = {"limit": PAGE, "order": "asc"}
        while True:
            page = await self._get(f"/v1/conversations/{name}/items", _Items, **asked)
            messages += ((item.role, "".join(part.text for part in item.content)) for item in page.data)
            if not page.has_more or page.last_id is None:
                return tuple(messages)
            asked["after"] = page.last_id

    async def memory(self, place: str) -> Memory:
        """place: the path of a conversation or an answer."""
        return await self._get(f"{place}/memory", Memory)

    async def _get(self, path: str, shape: type[T], **asked: str | int) -> T:
        async with speaking():
            response = await self._http.get(path, params=asked)
        if response.status_code != 200:
            raise AnswerFailed(reason(response.content, response.status_code))
        try:
            return msgspec.json.decode(response.content, type=shape)
        except msgspec.DecodeError:
            raise AnswerFailed("The server answered in a way that this client does not know.") from None


def listing(kept: list[Kept], branches: list[str]) -> Iterator[str]:
    """Lines to choose from: what the server keeps, then the branches of this client, numbered through."""
    for number, conversation in enumerate(kept, 1):
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(conversation.created_at))
        yield f"{number:3}  {when}  {conversation.title}  ({conversation.id})"
    for number, title in enumerate(branches, len(kept) + 1):
        yield f"{number:3}  a branch          {title}"


def _size(count: int) -> str:
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.3g} {_UNITS[unit]}"
