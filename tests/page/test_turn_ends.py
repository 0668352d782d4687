"""However a turn of a page's ends, it is saved and told."""

from __future__ import annotations

import asyncio

from chatserve.server.serve import DrainLimits
from tests.page.page_server import PageParts
from tests.page.tab import begin, following, say, tree
from tests.server.running_server import Running, serving
from tests.server.scripted import ScriptedEngine
from tests.server.test_disconnects import until


async def test_stop_stops_and_keeps_what_was_said(halted: ScriptedEngine, server: Running) -> None:
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        made = (await say(http, name, "Hi")).json()["id"]
        await until(lambda: halted.last.made >= 5)
        await tab.until("text")
        stopped = await http.post(f"/page/turns/{made}/stop", json={})
        assert stopped.json() == {"status": "cancelled"}
        assert halted.last.stopped
        turn = (await tab.until("end"))["turn"]
    assert (turn["status"], turn["answer"]) == ("cancelled", "Hello")
    assert (await tree(http, name))["turns"][-1] == turn
    assert (await http.post(f"/page/turns/{made}/stop", json={})).json() == {"status": "cancelled"}
    halted.pace = 0
    assert (await say(http, name, "go on", parent=made)).status_code == 202


async def test_stop_before_the_first_word_leaves_the_question(server: Running) -> None:
    server.engine.prefill = 60
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        made = (await say(http, name, "Hi")).json()["id"]
        assert (await http.post(f"/page/turns/{made}/stop", json={})).json() == {"status": "cancelled"}
        turn = (await tab.until("end"))["turn"]
    assert (turn["status"], turn["answer"], turn["messages"][0]["text"]) == ("cancelled", "", "Hi")
    assert turn["times"] == {"ttft_ms": None, "tokens_per_second": None}


async def test_what_has_ended_stays_as_it_was(server: Running) -> None:
    http = server.http()
    name = await begin(http)
    made = (await say(http, name, "Hi")).json()["id"]
    await server.parts.running.idle()
    assert (await http.post(f"/page/turns/{made}/stop", json={})).json() == {"status": "completed"}
    for unknown in ("resp_nothing", "nothing"):
        assert (await http.post(f"/page/turns/{unknown}/stop", json={})).status_code == 404


async def test_an_engine_that_dies_is_told_and_what_came_is_kept(halted: ScriptedEngine, server: Running) -> None:
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        made = (await say(http, name, "Hi")).json()["id"]
        await until(lambda: halted.last.made >= 5)
        await tab.until("text")
        halted.die()
        failed = await tab.until("error")
    assert (failed["id"], failed["error"]["code"]) == (made, "engine_died")
    now = await tree(http, name)
    assert now["running"] is None
    assert (now["turns"][-1]["status"], now["turns"][-1]["answer"]) == ("failed", "Hello")
    refused = await say(http, name, "again")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready")


async def test_what_the_engine_refuses_is_told(server: Running) -> None:
    server.engine.refusal = "too long"
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        await say(http, name, "Hi")
        assert (await tab.until("error"))["error"]["code"] == "context_length_exceeded"


async def test_a_deleted_conversations_turn_ends_with_it(halted: ScriptedEngine, server: Running) -> None:
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        await say(http, name, "Hi")
        await tab.until("text")
        await http.delete(f"/page/conversations/{name}")
        await tab.until_ended()
    assert tab.kinds()[-1] == "deleted"
    await until(lambda: halted.last.stopped and not server.parts.running)
    assert "error" not in tab.kinds()
    assert (await http.get(f"/page/conversations/{name}/events")).status_code == 404


async def test_a_server_that_leaves_ends_the_turn_saves_it_and_says_so(
    halted: ScriptedEngine, parts: PageParts
) -> None:
    parts.drain = DrainLimits(running=0.2, ending=2, engine=1)
    async with serving(parts) as server:
        http = server.http()
        name = await begin(http)
        async with following(http, name) as tab:
            made = (await say(http, name, "Hi")).json()["id"]
            await until(lambda: halted.last.made >= 5)
            await tab.until("text")
            server.signals.note()
            failed = await tab.until("error")
            await tab.until_ended()
        assert (failed["id"], failed["error"]["code"]) == (made, "draining")
        await asyncio.wait_for(server.task, 5)
    chain = await parts.store.chain(made.removeprefix("resp_"))
    assert (chain[-1].answer, chain[-1].status) == ("Hello", "cancelled")


async def test_a_server_without_turns_leaves_at_once_though_pages_are_open(parts: PageParts) -> None:
    async with serving(parts) as server:
        http = server.http()
        async with following(http, await begin(http)) as tab:
            server.signals.note()
            await tab.until_ended()
        await asyncio.wait_for(server.task, 5)
