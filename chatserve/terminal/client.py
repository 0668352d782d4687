"""`chatserve chat`: a conversation with a running server, in a terminal or a pipe.

The conversation lives on the server under a session id; only what is new is ever sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final, TextIO

import httpx

from chatserve.terminal.events import Answer, AnswerFailed
from chatserve.terminal.lines import Lines

HELP: Final = """\
/system TEXT  tell the assistant how to behave, from your next message on
/new          begin another conversation
/help         this
/quit         leave (so does the end of input)
Ctrl-C stops an answer; what you have seen of it stays in the conversation."""


class ServerNotThere(Exception):
    """Nobody answers at the address."""


class Conversation:
    """One session on one server."""

    def __init__(self, http: httpx.AsyncClient, model: str | None) -> None:
        self._http = http
        self._model = model
        self._session = uuid.uuid4().hex
        self._system: list[str] = []

    def instruct(self, text: str) -> None:
        """A system message, sent with the next turn."""
        self._system.append(text)

    @asynccontextmanager
    async def ask(self, text: str) -> AsyncIterator[Answer]:
        """Raises ServerNotThere, and what reading the answer raises."""
        messages = [{"role": "system", "content": system} for system in self._system]
        messages.append({"role": "user", "content": text})
        body = {
            "messages": messages,
            "session_id": self._session,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self._model is not None:
            body["model"] = self._model
        began = time.perf_counter()
        try:
            async with self._http.stream("POST", "/v1/chat/completions", json=body) as response:
                answer = Answer(response, began)
                try:
                    yield answer
                finally:
                    if answer.seen:  # a turn of which nothing was seen is not in the conversation
                        self._system.clear()
        except httpx.ConnectError:
            raise ServerNotThere from None
        except httpx.TransportError:
            raise AnswerFailed("The connection to the server broke.") from None


async def chat(
    url: str, model: str | None, api_key: str | None = None, *, source: TextIO, screen: TextIO, interactive: bool
) -> int:
    """Talk until /quit or the end of input; returns the exit status: 1 when there is no server or a turn failed.

    url: of the server, without a path. model: None for whichever it serves. api_key: where the server asks for one.
    interactive: show a prompt, and what each turn cost on lines of their own; a pipe gets these too, but no prompt.
    """
    timeout = httpx.Timeout(10.0, read=None)  # a long prompt may take its time; the server sends pings meanwhile
    headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
    async with httpx.AsyncClient(base_url=url, timeout=timeout, headers=headers) as http:
        screen_lines = _Screen(screen, "> " if interactive else "")
        try:
            served = await _served_model(http, model)
            screen_lines.line(f"Talking to {served} at {url}. /help lists what else you can type.")
            return await _converse(http, model, Lines(source), screen_lines)
        except ServerNotThere:
            screen_lines.line(f"No server answers at {url}. Start one with `make serve` or `chatserve serve`.")
            return 1


class _Screen:
    def __init__(self, stream: TextIO, prompt: str) -> None:
        self._stream = stream
        self._prompt = prompt

    def line(self, text: str) -> None:
        self.write(text + "\n")

    def write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def ask(self) -> None:
        self.write(self._prompt)


async def _served_model(http: httpx.AsyncClient, model: str | None) -> str:
    try:
        response = await http.get("/v1/models")
        response.raise_for_status()
        return model or str(response.json()["data"][0]["id"])
    except httpx.HTTPStatusError:
        return model or "a model that is still being loaded"
    except httpx.TransportError:
        raise ServerNotThere from None


async def _converse(http: httpx.AsyncClient, model: str | None, lines: Lines, screen: _Screen) -> int:
    conversation = Conversation(http, model)
    status = 0
    screen.ask()
    async for line in lines:
        word, _, rest = line.strip().partition(" ")
        match word:
            case "":
                pass
            case "/quit" | "/exit":
                return status
            case "/help":
                screen.line(HELP)
            case "/new":
                conversation = Conversation(http, model)
                screen.line("A new conversation.")
            case "/system":
                conversation.instruct(rest)
            case _ if word.startswith("/"):
                screen.line(f"{word} is not known. /help lists what is.")
            case _:
                status = max(status, await _turn(conversation, line, screen))
        screen.ask()
    return status


async def _turn(conversation: Conversation, text: str, screen: _Screen) -> int:
    """One question and its answer; 1 when it failed."""
    answering = asyncio.create_task(_answer(conversation, text, screen))
    with _stopped_by_interrupt(answering):
        try:
            await answering
        except asyncio.CancelledError:
            if not answering.cancelled():
                raise
            screen.line("\n(stopped)")
        except AnswerFailed as error:
            screen.line(f"\n{error}")
            return 1
    return 0


async def _answer(conversation: Conversation, text: str, screen: _Screen) -> None:
    async with conversation.ask(text) as answer:
        async for piece in answer.text():
            screen.write(piece)
        cost = answer.cost
    screen.line("" if cost is None else f"\n{cost}")


@contextlib.contextmanager
def _stopped_by_interrupt(task: asyncio.Task[None]) -> Iterator[None]:
    """While it runs, Ctrl-C ends the answer and not the program."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
