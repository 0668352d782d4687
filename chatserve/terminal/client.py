"""`chatserve chat`: a conversation with a running server, in a terminal or a pipe."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Final, TextIO

import httpx

from chatserve.terminal.conversation import Conversation, ServerNotThere
from chatserve.terminal.events import AnswerFailed
from chatserve.terminal.lines import Lines
from chatserve.terminal.shelf import Kept, Shelf, listing

HELP: Final = """\
/retry        another answer to your last question, in a branch
/edit TEXT    ask this instead of your last question, in a branch
/fork         go on in a branch; what you leave stays as it is
/list         your conversations on the server, and the branches you left
/open N       go on with one of them, by its number in the list or its id
/memory       what the server holds of this conversation in memory
/system TEXT  tell the assistant how to behave, from your next message on
/new          begin another conversation
/help         this
/quit         leave (so does the end of input)
Ctrl-C stops an answer; what you have seen of it stays in the conversation."""


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
    desk = _Desk(http, model, screen)
    status = 0
    screen.ask()
    async for line in lines:
        word, _, rest = line.strip().partition(" ")
        if word in ("/quit", "/exit"):
            return status
        try:
            await desk.do(word, rest, line)
        except AnswerFailed as error:
            screen.line(f"\n{error}")
            status = 1
        screen.ask()
    return status


class _Desk:
    """The conversation that is being had, those that were left, and what one can type."""

    def __init__(self, http: httpx.AsyncClient, model: str | None, screen: _Screen) -> None:
        self._http = http
        self._model = model
        self._screen = screen
        self._shelf = Shelf(http)
        self._conversation = Conversation(http, model)
        self._left: list[Conversation] = []
        self._listed: list[Kept] = []

    async def do(self, word: str, rest: str, line: str) -> None:
        """Raises AnswerFailed and ServerNotThere."""
        match word:
            case "":
                pass
            case "/help":
                self._screen.line(HELP)
            case "/new":
                self._go(Conversation(self._http, self._model), "A new conversation.")
            case "/system":
                self._conversation.instruct(rest)
            case "/fork":
                self._go(self._conversation.fork(), "A branch; what you left is in /list.")
            case "/retry" | "/edit":
                await self._again(rest if word == "/edit" else None)
            case "/list":
                await self._list()
            case "/open":
                await self._open(rest.strip())
            case "/memory":
                await self._memory()
            case _ if word.startswith("/"):
                self._screen.line(f"{word} is not known. /help lists what is.")
            case _:
                await _turn(self._conversation, line, self._screen)

    def _go(self, conversation: Conversation, said: str) -> None:
        """Leave for another conversation. A branch that is left is known to this client only, so it is kept here."""
        if self._conversation.name is None and self._conversation.begun:
            self._left.append(self._conversation)
        self._conversation = conversation
        self._screen.line(said)

    async def _again(self, question: str | None) -> None:
        if question is not None and not question.strip():
            raise AnswerFailed("What do you want to ask instead? Write /edit and the question.")
        branch, question = self._conversation.again(question)
        self._go(branch, f"(a branch) {question}")
        await _turn(branch, question, self._screen)

    async def _list(self) -> None:
        self._listed = await self._shelf.conversations()
        lines = list(listing(self._listed, [branch.title for branch in self._left]))
        self._screen.line("\n".join(lines) if lines else "There are none yet.")

    async def _open(self, which: str) -> None:
        number = int(which) - 1 if which.isascii() and which.isdecimal() else None
        if number is None:
            kept = await self._shelf.conversation(which) if which else None
        elif 0 <= number < len(self._listed):
            kept = self._listed[number]
        elif 0 <= (place := number - len(self._listed)) < len(self._left):
            branch = self._left.pop(place)
            self._go(branch, f"Back in a branch of: {branch.title}")
            return
        else:
            kept = None
        if kept is None:
            raise AnswerFailed("Which one? Write /list, then /open and a number of that list, or an id.")
        said = await self._shelf.said(kept.id)
        for role, text in said[-2:]:
            self._screen.line(f"{role}: {text}")
        opened = Conversation.opened(self._http, self._model, kept.id, kept.title, said)
        self._go(opened, f"You go on with: {kept.title}")

    async def _memory(self) -> None:
        if self._conversation.place is None:
            raise AnswerFailed("There is nothing in memory yet: ask something first.")
        self._screen.line(str(await self._shelf.memory(self._conversation.place)))


async def _turn(conversation: Conversation, text: str, screen: _Screen) -> None:
    """One question and its answer. Raises AnswerFailed."""
    answering = asyncio.create_task(_answer(conversation, text, screen))
    with _stopped_by_interrupt(answering):
        try:
            await answering
        except asyncio.CancelledError:
            if not answering.cancelled():
                raise
            screen.line("\n(stopped)")


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
