"""The terminal client against a real server."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
from pathlib import Path

import pytest

from chatserve.cli import parser
from chatserve.server.edge import Edge
from chatserve.server.keys import KeyRing
from chatserve.terminal.client import chat
from chatserve.terminal.events import Cost
from sessions.turns import unpack_ids
from tests.server.conftest import ANSWER
from tests.server.running_server import MODEL, Parts, Running, serving
from tests.server.test_disconnects import until
from tests.server.test_keys import ALICE, BOB, keys_in


async def talk(server: Running, typed: str, **options: object) -> tuple[int, str]:
    screen = io.StringIO()
    status = await chat(server.url, None, source=io.StringIO(typed), screen=screen, interactive=False, **options)  # type: ignore[arg-type]
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


def prompt(server: Running, place: int = -1) -> str:
    """What an answer was given, the template's line ends left out."""
    ids = unpack_ids(server.engine.streams[place].request.prompt)
    return server.parts.tokenizer.decode(ids).replace(ANSWER, "A").replace("\n", " ").strip()


async def test_retry_asks_the_same_in_a_branch_and_goes_on_there(server: Running) -> None:
    status, shown = await talk(server, "one\ntwo\n/retry\nthree\n/quit\n")
    assert status == 0
    assert "(a branch) two" in shown
    assert prompt(server, 2) == prompt(server, 1) == "user one assistant A user two assistant"
    assert prompt(server) == "user one assistant A user two assistant A user three assistant"
    streams = server.engine.streams
    assert server.engine.cached(streams[2].request) == len(unpack_ids(streams[2].request.prompt)) - 1


async def test_edit_asks_something_else_in_its_place_and_the_first_question_can_be_edited(server: Running) -> None:
    _, shown = await talk(server, "/system Be brief.\none\n/edit uno\ntwo\n/edit dos\n/edit\n")
    assert prompt(server, 1) == "system Be brief. user uno assistant"
    assert prompt(server, 3) == "system Be brief. user uno assistant A user dos assistant"
    assert "What do you want to ask instead?" in shown
    assert len(server.engine.streams) == 4


async def test_a_fork_leaves_the_conversation_as_it_is_and_both_can_be_gone_on_with(server: Running) -> None:
    _, shown = await talk(server, "one\n/fork\ntwo\n/list\n/open 1\nthree\n/list\n/open 2\nfour\n")
    assert prompt(server, 1) == "user one assistant A user two assistant"
    assert prompt(server, 2) == "user one assistant A user three assistant"
    assert prompt(server, 3) == "user one assistant A user two assistant A user four assistant"
    assert re.search(r"1  \d{4}-\d\d-\d\d \d\d:\d\d  one  \(conv_\w+\)\n", shown)
    assert "  2  a branch          one\n" in shown


async def test_another_client_opens_what_was_left_and_branches_there(server: Running) -> None:
    _, shown = await talk(server, "one\ntwo\n/list\n")
    name = re.findall(r"conv_\w+", shown)[0]
    status, shown = await talk(server, f"/open {name}\nthree\n/retry\n/new\n/open {name}\n/edit drei\n/fork\nfour\n")
    assert status == 0
    assert f"user: two\nassistant: {ANSWER}\nYou go on with: one" in shown
    known = "user one assistant A user two assistant A"
    assert prompt(server, 2) == prompt(server, 3) == f"{known} user three assistant"
    assert prompt(server, 4) == f"{known} user drei assistant"
    assert prompt(server) == f"{known} user drei assistant A user four assistant"


async def test_memory_is_told_of_a_conversation_and_of_a_branch(server: Running) -> None:
    status, shown = await talk(server, "one\n/memory\n/fork\n/memory\n/retry\n/memory\n")
    assert status == 0
    assert (
        len(re.findall(r"(\d+) of \1 tokens in memory\n[\d.]+ \w+: [\d.]+ \w+ its own, [\d.]+ \w+ shared", shown)) == 3
    )


async def test_commands_that_cannot_be_done_say_so_and_the_client_goes_on(server: Running) -> None:
    status, shown = await talk(
        server, "/retry\n/fork\n/memory\n/edit x\n/list\n/open 7\n/open\n/open conv_none\n/help\n"
    )
    assert status == 1
    assert shown.count("ask something first") == 4
    assert "There are none yet." in shown
    assert shown.count("Which one?") == 2
    assert "There is no conversation 'conv_none'." in shown
    assert "/fork " in shown
    assert server.engine.streams == []


async def test_a_key_is_sent_where_there_is_one(parts: Parts, tmp_path: Path) -> None:
    parts.edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path)))
    async with serving(parts) as server:
        assert (await talk(server, "Hi\n"))[0] == 1
        assert "asks for an API key" in (await talk(server, "Hi\n"))[1]
        status, shown = await talk(server, "Hi\n/list\n", api_key=ALICE)
        assert (status, shown.count(ANSWER), shown.count("conv_")) == (0, 1, 1)
        assert "conv_" not in (await talk(server, "/list\n", api_key=BOB))[1]


def test_the_key_comes_from_the_environment_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHATSERVE_API_KEY", raising=False)
    assert parser().parse_args(["chat"]).api_key is None
    monkeypatch.setenv("CHATSERVE_API_KEY", ALICE)
    assert parser().parse_args(["chat"]).api_key == ALICE
    assert parser().parse_args(["chat", "--api-key", BOB]).api_key == BOB
    assert parser().parse_args(["serve"]).api_key == ALICE
    assert ALICE not in parser().format_help()
