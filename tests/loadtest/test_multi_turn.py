"""The load client as a program, against servers whose delays are known and against servers that lie."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from loadtest.scenarios import SCENARIOS
from tests.loadtest.scripted_chat import Script, ScriptedChat, scripted_chat

SMOKE = SCENARIOS["S"]


async def load(chat: ScriptedChat, out: Path, suite: str = "S") -> tuple[int, dict[str, Any]]:
    """Exit status and figures."""
    command = [sys.executable, "-m", "loadtest.multi_turn", "--url", chat.url, "--model", "m", "--suite", suite]
    client = await asyncio.create_subprocess_exec(
        *command, "--out", str(out), "--turns", stdout=asyncio.subprocess.DEVNULL
    )
    status = await client.wait()
    return status, json.loads(out.read_text())


async def test_its_figures_are_what_the_server_did(tmp_path: Path) -> None:
    async with scripted_chat(Script(first=0.6, between=0.06)) as chat:
        status, kept = await load(chat, tmp_path / "out.json")
    found = kept["S"]
    assert status == 0
    assert found["turns"] == found["turns_wanted"] == len(chat.truths) == SMOKE.conversations * SMOKE.turns
    # Beside what the server's own clock says it did, however busy the machine was.
    ttft = statistics.mean(truth.first - truth.asked for truth in chat.truths)
    e2e = statistics.mean(truth.ended - truth.asked for truth in chat.truths)
    wall = max(truth.ended for truth in chat.truths) - min(truth.asked for truth in chat.truths)
    assert found["ttft_mean_ms"] == pytest.approx(ttft * 1e3, rel=0.05)
    assert found["e2e_mean_ms"] == pytest.approx(e2e * 1e3, rel=0.05)
    assert found["tpot_mean_ms"] == pytest.approx((e2e - ttft) / (SMOKE.answer - 1) * 1e3, rel=0.05)
    assert found["out_tok_s"] == pytest.approx(len(chat.truths) * SMOKE.answer / wall, rel=0.05)
    assert found["cached_share"] == 30 / 40
    assert found["answers_without_text"] == 0


async def test_headers_and_role_at_once_are_no_first_token(tmp_path: Path) -> None:
    """The server opens its stream and sends the role without delay; only text ends the wait."""
    async with scripted_chat(Script(first=0.3)) as chat:
        _, kept = await load(chat, tmp_path / "out.json")
    assert min(turn["ttft"] for turn in kept["S"]["each_turn"]) >= 0.3


async def test_the_history_is_sent_again_with_the_models_own_words(tmp_path: Path) -> None:
    async with scripted_chat(Script(text=' "é\n\\')) as chat:
        await load(chat, tmp_path / "out.json")
    first = next(truth.body["messages"] for truth in chat.truths if len(truth.body["messages"]) == 2)
    later = next(
        truth.body["messages"]
        for truth in chat.truths
        if len(truth.body["messages"]) == 4 and truth.body["messages"][1] == first[1]
    )
    assert later[:2] == first
    assert later[2] == {"role": "assistant", "content": ' "é\n\\' * SMOKE.answer}
    assert [len(message["content"].split()) for message in (*first, later[3])] == [64, 32, 32]
    asked = {key: chat.truths[0].body[key] for key in ("stream", "max_tokens", "ignore_eos", "temperature")}
    assert asked == {"stream": True, "max_tokens": SMOKE.answer, "ignore_eos": True, "temperature": 0}


@pytest.mark.parametrize(
    ("flaw", "told"),
    [
        ("dies", "closed inside the stream"),
        ("no usage", "no usage"),
        ("no done", "without [DONE]"),
        ("error", "the engine died"),
        ("short", "15 tokens came instead of 16"),
        ("refuses", "status 503: full"),
    ],
)
async def test_a_lying_server_is_a_failure(tmp_path: Path, flaw: str, told: str) -> None:
    async with scripted_chat(Script(flaw=flaw)) as chat:
        status, kept = await load(chat, tmp_path / "out.json")
    assert status == 1
    assert kept["S"]["errors"] == SMOKE.conversations, "a conversation ends with its first bad answer"
    assert kept["S"]["turns"] == 0
    assert all(told in failure for failure in kept["S"]["failures"])


async def test_many_clients_in_several_processes_hold_every_conversation_once(tmp_path: Path) -> None:
    async with scripted_chat(Script()) as chat:
        status, kept = await load(chat, tmp_path / "out.json", "W2")
    assert status == 0
    assert kept["W2"]["turns"] == 256
    assert len(kept["W2"]["client_cpu_s"]) == 4
    assert len({truth.body["messages"][1]["content"] for truth in chat.truths}) == 256
    assert len({truth.body["messages"][0]["content"] for truth in chat.truths}) == 1
