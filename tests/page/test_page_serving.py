"""The page's server as its users start it, with the real model and two API processes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from chatserve.page.policy import POLICY
from chatserve.page.static import WEB
from tests.integration.serving import Serving, serving, wait_until
from tests.page.tab import Tab, begin, following, say, tree

pytestmark = pytest.mark.model

TABS = 6
GREEDY = {"temperature": 0, "max_output_tokens": 8}
LONG = {"temperature": 0, "max_output_tokens": 2000}


@pytest.fixture(scope="module")
def crew(demo_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """The last test of all tells it to leave."""
    arguments = (str(demo_folder), "--device", "cpu", "--workers", "2", "--drain", "1")
    with serving(*arguments, folder=tmp_path_factory.mktemp("page")) as server:
        wait_until(lambda: "is ready at" in server.output.read_text())
        yield server


@asynccontextmanager
async def client(server: Serving) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
        yield http


@asynccontextmanager
async def tabs(server: Serving, name: str) -> AsyncIterator[list[Tab]]:
    """Each over a connection of its own; so many, or more until each process has one: the system deals connections out
    as it likes.
    """
    async with AsyncExitStack() as open_tabs:
        found, makers = [], set[int]()
        while len(found) < TABS or makers != set(server.worker_pids()):
            http = await open_tabs.enter_async_context(client(server))
            found.append(await open_tabs.enter_async_context(following(http, name)))
            makers.add(maker(server, http))
            await asyncio.sleep(0.02)  # one that was killed is not back at once
        yield found


def test_the_page_is_there(crew: Serving) -> None:
    index = crew.get("/")
    assert (index.status_code, index.content) == (200, (WEB / "index.html").read_bytes())
    assert index.headers["content-security-policy"] == POLICY
    assert crew.get("/page/settings").json()["max_model_len"] > 0


async def test_every_tab_sees_every_turn_and_the_next_one_goes_on_from_memory(crew: Serving) -> None:
    async with client(crew) as http:
        name = await begin(http)
        async with tabs(crew, name) as found:
            made = (await say(http, name, "Hello!", settings=GREEDY)).json()["id"]
            ends = [await tab.until("end") for tab in found]
            assert all(end == ends[0] for end in ends)
            for tab in found:
                assert [kind for kind in tab.kinds() if kind != "state"] == ["turn", "end"]
            first = ends[0]["turn"]
            assert (first["id"], first["status"]) == (made, "length")
            assert first["times"]["tokens_per_second"] > 0
            again = await say(http, name, "And then?", parent=made, settings=GREEDY)
            second = (await found[0].until("end", 2))["turn"]
            assert (second["id"], second["parent"]) == (again.json()["id"], made)
            past = first["usage"]["input_tokens"] + first["usage"]["output_tokens"] - 1
            assert second["usage"]["input_tokens_details"]["cached_tokens"] >= past - 1
        now = await tree(http, name)
        assert [turn["id"] for turn in now["turns"]][-2:] == [made, second["id"]]
        assert (await http.get(f"/v1/responses/{made}")).json()["output"][0]["content"][0]["text"] == first["answer"]


async def test_any_process_stops_any_turn(crew: Serving) -> None:
    async with client(crew) as http:
        name = await begin(http)
        async with tabs(crew, name) as found:
            for number in range(1, 5):
                made = (await say(http, name, "Tell me a long story.", settings=LONG)).json()["id"]
                await found[0].until("turn", number)
                async with client(crew) as other:
                    stopped = await other.post(f"/page/turns/{made}/stop", json={})
                assert stopped.json() == {"status": "cancelled"}
                for tab in found:
                    assert (await tab.until("end", number))["turn"]["id"] == made


async def test_a_process_that_is_killed_costs_its_turn_and_no_more(crew: Serving) -> None:
    async with client(crew) as http:
        name = await begin(http)
        async with tabs(crew, name) as found:
            assert (await say(http, name, "Tell me a long story.", settings=LONG)).status_code == 202
            await found[0].until("text")
            os.kill(maker(crew, http), signal.SIGKILL)
            for tab in found:
                await tab.until_told_or_ended("changed")
            for tab in found:
                if not tab.ended:
                    assert tab.last("state") == {"type": "state", "running": None, "elsewhere": False}
    async with client(crew) as http:
        assert (await say(http, name, "Hello!", settings=GREEDY)).status_code == 202


def maker(server: Serving, http: httpx.AsyncClient) -> int:
    """The process behind a client's one connection."""
    transport = http._transport
    assert isinstance(transport, httpx.AsyncHTTPTransport)
    (connection,) = transport._pool.connections
    stream = connection._connection._network_stream  # type: ignore[attr-defined]
    port = stream.get_extra_info("client_addr")[1]
    return next(
        pid
        for pid in server.worker_pids()
        if port in {each.raddr.port for each in psutil.Process(pid).net_connections() if each.raddr}
    )


async def test_a_server_that_leaves_tells_every_page(crew: Serving) -> None:
    async with client(crew) as http:
        name = await begin(http)
        async with tabs(crew, name) as found:
            assert (await say(http, name, "Tell me a long story.", settings=LONG)).status_code == 202
            await found[0].until("text")
            crew.process.send_signal(signal.SIGTERM)
            for tab in found:
                await tab.until_ended()
            failed = [tab.last("error")["error"]["code"] for tab in found if "error" in tab.kinds()]
            assert failed, [tab.kinds()[-6:] for tab in found]
            assert set(failed) == {"draining"}
    assert await asyncio.to_thread(crew.process.wait, 20) == 0
