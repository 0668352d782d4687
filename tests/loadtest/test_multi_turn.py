"""The load client as a program, against servers whose delays are known and against servers that lie."""

from __future__ import annotations

import asyncio
import hashlib
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

from chatserve.bench.talks import Manner, Stateless
from loadtest.scenarios import SCENARIOS, Scripted
from tests.bench.scripted import Script, serving
from tests.bench.scripted import Scripted as Chat

SMOKE = SCENARIOS["S"]


async def load(chat: Chat, out: Path, suite: str = "S") -> tuple[int, dict[str, Any]]:
    """Exit status and figures."""
    command = [sys.executable, "-m", "loadtest.multi_turn", "--url", chat.url, "--model", "m", "--suite", suite]
    client = await asyncio.create_subprocess_exec(
        *command, "--out", str(out), "--turns", stdout=asyncio.subprocess.DEVNULL
    )
    status = await client.wait()
    return status, json.loads(out.read_text())


async def test_its_figures_are_what_the_server_did(tmp_path: Path) -> None:
    async with serving(Script(first=0.6, between=0.06)) as chat:
        status, kept = await load(chat, tmp_path / "out.json")
    found = kept["S"]
    assert status == 0
    assert found["turns"] == found["turns_wanted"] == len(chat.asks()) == SMOKE.conversations * SMOKE.turns
    # Beside what the server's own clock says it did, however busy the machine was.
    ttft = statistics.mean(truth.ttft for truth in chat.asks())
    e2e = statistics.mean(truth.ended - truth.asked for truth in chat.asks())
    wall = max(truth.ended for truth in chat.asks()) - min(truth.asked for truth in chat.asks())
    assert found["ttft_mean_ms"] == pytest.approx(ttft * 1e3, rel=0.05)
    assert found["e2e_mean_ms"] == pytest.approx(e2e * 1e3, rel=0.05)
    assert found["tpot_mean_ms"] == pytest.approx((e2e - ttft) / (SMOKE.answer - 1) * 1e3, rel=0.05)
    assert found["out_tok_s"] == pytest.approx(len(chat.asks()) * SMOKE.answer / wall, rel=0.05)
    assert found["cached_share"] == 30 / 40
    assert found["answers_without_text"] == 0


async def test_headers_and_role_at_once_are_no_first_token(tmp_path: Path) -> None:
    """The server opens its stream and sends the role without delay; only text ends the wait."""
    async with serving(Script(first=0.3)) as chat:
        _, kept = await load(chat, tmp_path / "out.json")
    assert min(turn["ttft"] for turn in kept["S"]["each_turn"]) >= 0.3


async def test_the_history_is_sent_again_with_the_models_own_words(tmp_path: Path) -> None:
    async with serving(Script(text=' "é\n\\')) as chat:
        await load(chat, tmp_path / "out.json")
    first = next(truth.body["messages"] for truth in chat.asks() if len(truth.body["messages"]) == 2)
    later = next(
        truth.body["messages"]
        for truth in chat.asks()
        if len(truth.body["messages"]) == 4 and truth.body["messages"][1] == first[1]
    )
    assert later[:2] == first
    assert later[2] == {"role": "assistant", "content": ' "é\n\\' * SMOKE.answer}
    assert [len(message["content"].split()) for message in (*first, later[3])] == [64, 32, 32]
    asked = {key: chat.asks()[0].body[key] for key in ("stream", "max_tokens", "ignore_eos", "temperature")}
    assert asked == {"stream": True, "max_tokens": SMOKE.answer, "ignore_eos": True, "temperature": 0}


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        ("dies", "cut off"),
        ("no usage", "no usage"),
        ("no end", "without [DONE]"),
        ("error", "the engine died"),
        ("short", "15 tokens came instead of 16"),
    ],
)
async def test_a_lying_server_is_a_failure(tmp_path: Path, lie: str, told: str) -> None:
    async with serving(Script(lie=lie)) as chat:
        status, kept = await load(chat, tmp_path / "out.json")
    assert status == 1
    assert kept["S"]["errors"] == SMOKE.conversations, "a conversation ends with its first bad answer"
    assert kept["S"]["turns"] == 0
    assert all(told in failure for failure in kept["S"]["failures"])


async def test_many_clients_in_several_processes_hold_every_conversation_once(tmp_path: Path) -> None:
    async with serving(Script()) as chat:
        status, kept = await load(chat, tmp_path / "out.json", "W2")
    assert status == 0
    assert kept["W2"]["turns"] == 256
    assert len(kept["W2"]["client_cpu_s"]) == 4
    assert len({truth.body["messages"][1]["content"] for truth in chat.asks()}) == 256
    assert len({truth.body["messages"][0]["content"] for truth in chat.asks()}) == 1


def test_every_byte_is_as_it_was_when_other_servers_were_measured() -> None:
    digest = hashlib.sha256()
    for number in (0, 5):
        plan = Scripted("C", "1").plan(number)
        talk = Stateless(plan, Manner("m"))
        for turn in plan.turns:
            digest.update(talk.ask(turn))
            talk.answered("é ok", None)
    assert digest.hexdigest() == "bc9d2142fc3f17f5f0aab06737d6536418df3a4a6d84f8ffeeb7ec664556af1a"
