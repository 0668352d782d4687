"""Several API processes on one engine and one port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.recital import Recital
from tests.integration.serving import CHAT, Serving, gone, serving, start, told_by, until, wait_until
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.model

QUESTION, NEXT = "Recite without an end.", "Go on."
ENDLESS = {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "ignore_eos": True, "stream": True}


@pytest.fixture(scope="module")
def crew(recital: Recital, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Two workers. The last test of all tells them to leave."""
    arguments = (str(recital.folder), "--device", "cpu", "--workers", "2", "--drain", "6")
    with serving(*arguments, folder=tmp_path_factory.mktemp("crew")) as server:
        wait_until(lambda: "is ready at" in server.output.read_text())
        yield server


def port_of(client: WireClient) -> int:
    return int(client._writer.get_extra_info("sockname")[1])


async def streams_on_both(server: Serving, **fields: Any) -> dict[int, list[WireClient]]:
    """Streams, each by the worker that the system gave its connection to; at least two of each."""
    found: dict[int, list[WireClient]] = {pid: [] for pid in server.worker_pids()}
    while min(map(len, found.values())) < 2:
        client = await WireClient.connect(server.port)
        number = sum(map(len, found.values()))
        await client.post(CHAT, ENDLESS | {"session_id": f"{fields.get('name', 'stream')}-{number}"} | fields)
        assert (await client.head())[0] == 200
        for pid, clients in found.items():
            if port_of(client) in {each.raddr.port for each in psutil.Process(pid).net_connections() if each.raddr}:
                clients.append(client)
    return found


def test_one_port_is_served_by_all_and_says_once_that_it_is_ready(crew: Serving) -> None:
    for _ in range(20):
        assert crew.get("/health").json() == {"status": "alive"}
    said = crew.output.read_text()
    assert "worker 0.0: " in said
    assert "worker 1.0: " in said
    assert said.count("is ready at") == 1


def test_what_workers_count_is_added_up_whichever_is_asked_and_the_engine_is_there_once(crew: Serving) -> None:
    for number in range(6):
        crew.ask(f"{number}", max_tokens=2)

    def counted() -> dict[str, float]:
        families = text_string_to_metric_families(crew.get("/metrics").text)
        samples = [sample for family in families for sample in family.samples]
        assert len({(sample.name, *sample.labels.items()) for sample in samples}) == len(samples)
        return {sample.name: sample.value for sample in samples if sample.labels.get("le", "+Inf") == "+Inf"}

    slots = crew.stats()["slots"]
    for found in [counted() for _ in range(8)]:
        assert found["vllm:request_success_total"] == 6
        assert found["vllm:e2e_request_latency_seconds_count"] == 6
        assert found["vllm:time_to_first_token_seconds_bucket"] == 6
        assert found["chatserve:slots"] == slots


def test_turns_of_one_session_follow_one_another_whichever_worker_they_come_to(crew: Serving, recital: Recital) -> None:
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(crew.ask, NEXT, session_id="shared", max_tokens=3, ignore_eos=True) for _ in range(8)]
        answers = sorted((each.result() for each in asked), key=lambda answer: answer.prompt)
    assert answers[0].prompt == recital.asked(NEXT)
    for before, after in pairwise(answers):
        assert after.prompt == before.known + recital.added(NEXT), "none is lost and none is there twice"


async def test_a_running_response_is_found_whichever_worker_is_asked(crew: Serving) -> None:
    client = await WireClient.connect(crew.port)
    await client.post("/v1/responses", {"input": QUESTION, "temperature": 0, "ignore_eos": True, "stream": True})
    assert (await client.head())[0] == 200
    created = (await client.chunk()).partition(b"data: ")[2].splitlines()[0]
    name = json.loads(created)["response"]["id"]
    seen = [await asyncio.to_thread(crew.get, f"/v1/responses/{name}") for _ in range(12)]
    assert {reply.json()["status"] for reply in seen} == {"in_progress"}
    cancelled = await asyncio.to_thread(crew.post, f"/v1/responses/{name}/cancel", {})
    assert cancelled.json()["status"] == "cancelled"
    client.close()
    await until(crew.idle)


def test_a_port_that_other_workers_share_is_taken(crew: Serving, tmp_path: Path) -> None:
    server = start("no-such-folder", "--workers", "2", folder=tmp_path, port=crew.port)
    assert server.process.wait(20) == 1
    assert f"Port {crew.port} of 127.0.0.1 is taken" in server.output.read_text()


async def test_a_worker_that_dies_takes_its_own_answers_only_and_another_takes_its_place(
    crew: Serving, recital: Recital
) -> None:
    before = {number: crew.ask(QUESTION, session_id=f"stream-{number}", max_tokens=2) for number in range(12)}
    streams = await streams_on_both(crew)
    victim, survivor = crew.worker_pids()
    opened = sum(map(len, streams.values()))
    await until(lambda: crew.stats()["running"] == opened)
    os.kill(victim, signal.SIGKILL)
    await until(lambda: crew.stats()["running"] == len(streams[survivor]), 10)
    for client in streams[survivor]:
        for _ in range(5):
            assert b'"content"' in await client.chunk(), "who is on another worker notices nothing"
    for client in streams[victim]:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionResetError):
            assert not told_by(await client.events())[1]
    await until(lambda: len(crew.worker_pids()) == 2 and "another in" in crew.output.read_text(), 10)
    assert victim not in crew.worker_pids()
    assert survivor in crew.worker_pids()
    for client in streams[survivor]:
        client.vanish()
    await until(crew.idle)
    for number in range(min(opened, len(before))):
        following = crew.ask(NEXT, session_id=f"stream-{number}", max_tokens=2)
        assert following.prompt >= before[number].known + recital.added(NEXT), "what was answered before is known"


async def test_an_engine_that_dies_is_told_by_all_workers_and_all_find_the_next_one(crew: Serving) -> None:
    streams = await streams_on_both(crew, name="dying")
    engine = crew.engine_pid()
    os.kill(engine, signal.SIGKILL)
    async with asyncio.timeout(5):
        told = [told_by(await client.events())[1] for clients in streams.values() for client in clients]
    assert {error and error["code"] for error in told} == {"engine_died"}
    await until(crew.is_ready, 60)
    assert crew.engine_pid() != engine
    await until(lambda: all(crew.is_ready() for _ in range(12)), 10)


async def test_all_workers_drain_and_are_gone_with_the_engine_in_time(crew: Serving) -> None:
    """The last test of this server."""
    endless = await streams_on_both(crew, name="endless")
    short = await streams_on_both(crew, name="short", max_tokens=20)
    processes = [*crew.worker_pids(), crew.engine_pid()]
    began = time.monotonic()
    crew.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(40):
        finished = [(await client.events())[-1] for clients in short.values() for client in clients]
        cut = [told_by(await client.events()) for clients in endless.values() for client in clients]
    assert crew.process.wait(40) == 0
    assert time.monotonic() - began < 35
    assert set(finished) == {b"data: [DONE]\n\n"}
    assert {error and error["code"] for _, error in cut} == {"draining"}
    assert all(map(gone, processes))
    assert "Traceback" not in crew.output.read_text()


def test_workers_and_engine_do_not_outlive_their_supervisor(recital: Recital, tmp_path: Path) -> None:
    server = start(str(recital.folder), "--device", "cpu", "--workers", "2", folder=tmp_path)
    wait_until(lambda: len(server.children()) == 3, 20)
    processes = server.children()
    server.process.kill()
    server.process.wait()
    wait_until(lambda: all(map(gone, processes)), 60)  # an engine that loads looks up only when it has loaded


def test_a_server_that_no_worker_can_serve_says_why_once(recital: Recital, tmp_path: Path) -> None:
    (tmp_path / "sessions.sqlite3").write_bytes(b"this is no database" * 100)
    server = start(str(recital.folder), "--device", "cpu", "--workers", "2", folder=tmp_path)
    assert server.process.wait(30) == 1
    said = server.output.read_text()
    assert said.count("chatserve: the session database failed") == 1
    assert "Traceback" not in said
