"""A conversation as its user moves through it: the next turn, and branches from any earlier point.

It lives on the server. A turn either goes on with a named conversation or branches at a past answer; only what is new
is ever sent, but where nobody knows the answer to branch at: then it is what was said up to there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from chatserve.terminal.events import Answer, AnswerFailed, reason

Said = tuple[tuple[str, str], ...]
"""Messages: each its role and its text."""
TITLE_LENGTH = 60


class ServerNotThere(Exception):
    """Nobody answers at the address."""


class Point(Protocol):
    """Where in a tree of turns the next one goes on."""

    def fields(self, new: Said) -> dict[str, Any]:
        """What a request says to add messages here."""


@dataclass(frozen=True, slots=True)
class EndOf:
    """The end of a named conversation, wherever that is by then."""

    conversation: str

    def fields(self, new: Said) -> dict[str, Any]:
        return {"conversation": self.conversation, "input": _items(new)}


@dataclass(frozen=True, slots=True)
class After:
    """A past answer."""

    response: str

    def fields(self, new: Said) -> dict[str, Any]:
        return {"previous_response_id": self.response, "input": _items(new)}


@dataclass(frozen=True, slots=True)
class Anew:
    """After messages that are sent again; at the beginning, when there are none."""

    said: Said = ()

    def fields(self, new: Said) -> dict[str, Any]:
        return {"input": _items((*self.said, *new))}


class Conversation:
    """One line of turns on one server.

    name: its id on the server; None: a branch, or one that has not begun.  title: what it began with.
    """

    def __init__(self, http: httpx.AsyncClient, model: str | None, *, branches: Point | None = None) -> None:
        """branches: where it begins; None: it is a conversation of its own, named when its first turn begins."""
        self._http = http
        self._model = model
        self._system: list[str] = []
        self._next = branches
        self._tip: Point = branches or Anew()
        self._before: Point | None = None
        self._asked: Said = ()
        self.name: str | None = None
        self.title = ""

    @classmethod
    def opened(cls, http: httpx.AsyncClient, model: str | None, name: str, title: str, said: Said) -> Conversation:
        """One that is on the server already, with all that was said in it."""
        conversation = cls(http, model)
        conversation.name, conversation.title, conversation._next = name, title, EndOf(name)
        conversation._tip = Anew(said)
        asked = next((place for place in range(len(said) - 1, -1, -1) if said[place][0] == "user"), None)
        if asked is not None:
            conversation._before, conversation._asked = Anew(said[:asked]), said[asked : asked + 1]
        return conversation

    @property
    def begun(self) -> bool:
        """Whether anything was asked."""
        return self._before is not None

    @property
    def place(self) -> str | None:
        """The path of its newest point on the server; None: it has none."""
        if self.name is not None:
            return f"/v1/conversations/{self.name}"
        return f"/v1/responses/{self._tip.response}" if isinstance(self._tip, After) else None

    def instruct(self, text: str) -> None:
        """A system message, sent with the next turn."""
        self._system.append(text)

    def fork(self) -> Conversation:
        """A branch that begins with all that was said here. Raises AnswerFailed when that is nothing."""
        self._check_begun("fork")
        branch = Conversation(self._http, self._model, branches=self._tip)
        branch.title, branch._before, branch._asked = self.title, self._before, self._asked
        return branch

    def again(self, question: str | None = None) -> tuple[Conversation, str]:
        """A branch before the last question, and what to ask there: the same, or another one. Raises AnswerFailed."""
        self._check_begun("retry")
        branch = Conversation(self._http, self._model, branches=self._before)
        branch.title = self.title
        for role, text in self._asked[:-1]:
            assert role == "system"
            branch.instruct(text)
        return branch, self._asked[-1][1] if question is None else question

    @asynccontextmanager
    async def ask(self, text: str) -> AsyncIterator[Answer]:
        """Raises ServerNotThere, and what reading the answer raises."""
        asked = (*(("system", system) for system in self._system), ("user", text))
        self.title = self.title or text[:TITLE_LENGTH]
        began = time.perf_counter()
        async with speaking():
            point = self._next or await self._begin()
            body = point.fields(asked) | {"stream": True} | ({"model": self._model} if self._model else {})
            async with self._http.stream("POST", "/v1/responses", json=body) as response:
                answer = Answer(response, began)
                try:
                    yield answer
                except asyncio.CancelledError:
                    await self._stop(answer)
                    raise
                finally:
                    self._move(answer, asked)

    async def _begin(self) -> Point:
        """Name the conversation on the server."""
        response = await self._http.post("/v1/conversations", json={"metadata": {"title": self.title}})
        if response.status_code != 200:
            raise AnswerFailed(reason(response.content, response.status_code))
        self.name = str(response.json()["id"])
        self._next = EndOf(self.name)
        return self._next

    async def _stop(self, answer: Answer) -> None:
        """Have the server save what was seen, so that the next turn finds it; leaving would do so too, but later."""
        if answer.seen and answer.id is not None:
            await self._http.post(f"/v1/responses/{answer.id}/cancel")

    def _move(self, answer: Answer, asked: Said) -> None:
        """Go on after an answer, unless nothing of it was seen: then it is not in the conversation."""
        if answer.id is None or not (answer.seen or answer.ended):
            return
        self._before, self._asked, self._tip = self._tip, asked, After(answer.id)
        if self.name is None:
            self._next = self._tip
        self._system.clear()

    def _check_begun(self, what: str) -> None:
        if not self.begun:
            raise AnswerFailed(f"There is nothing to {what} yet: ask something first.")


@asynccontextmanager
async def speaking() -> AsyncIterator[None]:
    """For requests to the server. Raises ServerNotThere and AnswerFailed for what can become of a connection."""
    try:
        yield
    except httpx.ConnectError:
        raise ServerNotThere from None
    except httpx.TransportError:
        raise AnswerFailed("The connection to the server broke.") from None


def _items(said: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": text} for role, text in said]
