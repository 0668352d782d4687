"""The terminal client against a real server."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal

from chatserve.terminal.client import chat
from chatserve.terminal.events import Cost
from tests.server.conftest import ANSWER
from tests.server.running_server import MODEL, Running
from tests.server.test_disconnects import until


async def talk(server: Running, typed: str, **options: object) -> tuple[int, str]:
    screen = io.StringIO()
    status = await chat(server.url, None, source=io.StringIO(typed), screen=screen, interactive=False, **options)
    return status, screen.getvalue()


async def test_each_turn_shows_what_was_reused_and_the_time_to_first_token(server: Running) -> None:
    status, shown = await talk(server, "Hi\nmore\n/quit\n")
    assert status == 0
    assert MODEL in shown
    assert shown.count(ANSWER) == 2
    costs = re.findall(r"↺ (\d+) of (\d+) tokens reused · first token \d+ ms", shown)
    assert costs == [("0", "21"), (str(21 + len(ANSWER)), str(21 + len(ANSWER) + 2 + 19 + 4))]


async def test_history_stays_on_the_server_and_a_system_message_is_sent_once(server: Running) -> None:
    await talk(server, "/system Be brief.\none\ntwo\n")
    text = server.parts.tokenizer.decode(server.engine.prompt_ids())
    assert text == f"system\nBe brief.\nuser\none\nassistant\n{ANSWER}\nuser\ntwo\nassistant\n"


async def test_commands_and_the_end_of_input(server: Running) -> None:
    status, shown = await talk(server, "/help\n/nonsense\n\n/new\n")
    assert status == 0
    assert "/quit" in shown
    assert "/nonsense is not known" in shown
    assert server.engine.streams == []


async def test_ctrl_c_stops_the_answer_and_not_the_program(server: Running) -> None:
    server.engine.pace = 0.05
    read, write = os.pipe()
    screen = io.StringIO()
    with os.fdopen(read) as source, os.fdopen(write, "w", buffering=1) as keyboard:
        talking = asyncio.create_task(chat(server.url, None, source=source, screen=screen, interactive=True))
        keyboard.write("Hi\n")
        await until(lambda: "Hel" in screen.getvalue(), 3)
        os.kill(os.getpid(), signal.SIGINT)
        await until(lambda: "(stopped)" in screen.getvalue())
        await until(lambda: server.engine.last.stopped)
        server.engine.pace = 0
        keyboard.write("more\n/quit\n")
        assert await talking == 0
    assert "assistant\nHel" in server.parts.tokenizer.decode(server.engine.prompt_ids())


async def test_a_server_that_is_not_there_is_said_plainly() -> None:
    screen = io.StringIO()
    status = await chat("http://127.0.0.1:1", None, source=io.StringIO("Hi\n"), screen=screen, interactive=False)
    assert status == 1
    assert "No server answers at http://127.0.0.1:1" in screen.getvalue()


async def test_a_turn_that_fails_says_why_and_the_conversation_goes_on(server: Running) -> None:
    server.engine.refusal = "It can never fit."
    status, shown = await talk(server, "Hi\n/help\n")
    assert status == 1
    assert "It can never fit." in shown
    assert "/system" in shown


async def test_an_unknown_model_is_refused_in_the_servers_words(server: Running) -> None:
    screen = io.StringIO()
    assert await chat(server.url, "other", source=io.StringIO("Hi\n"), screen=screen, interactive=False) == 1
    assert "There is no model 'other' here" in screen.getvalue()


def test_a_cost_reads_like_a_sentence() -> None:
    cost = Cost(prompt_tokens=431, cached_tokens=412, completion_tokens=62, first_token=0.038, total=1.038)
    assert str(cost) == "↺ 412 of 431 tokens reused · first token 38 ms · 61 tok/s"
