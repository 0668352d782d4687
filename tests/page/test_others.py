"""What others do to a conversation, in other tabs, programs and processes, is told to whoever shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from chatserve.server.live import LiveResponses
from tests.page.page_server import PageParts, open_page_parts
from tests.page.tab import begin, following, say, tree
from tests.server.running_server import MODEL, Running, serving
from tests.server.scripted import ScriptedEngine
from tests.server.test_disconnects import until


@asynccontextmanager
async def elsewhere(server: Running, folder: Path) -> AsyncIterator[Running]:
    """Another API process over the same store, which can tell the first one to cancel."""
    other = await open_page_parts(folder, server.parts.tokenizer, server.engine)
    assert isinstance(server.parts, PageParts)
    other.live = LiveResponses(server.parts.live.hear)
    async with serving(other) as running:
        yield running
    await other.store.close()


async def test_a_deletion_and_a_new_title_are_told_to_tabs_of_other_processes(server: Running, tmp_path: Path) -> None:
    async with elsewhere(server, tmp_path) as other:
        http, far = server.http(), other.http()
        name = await begin(http)
        async with following(far, name) as tab:
            await http.post(f"/page/conversations/{name}", json={"title": "New"})
            assert (await tab.until("renamed"))["title"] == "New"
            await http.delete(f"/page/conversations/{name}")
            await tab.until_ended()
            assert tab.kinds() == ["state", "renamed", "deleted"]


async def test_a_turn_of_an_apis_client_is_told_as_a_change(server: Running) -> None:
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        await server.openai().responses.create(model=MODEL, input="Hi", conversation=name)
        await tab.until("changed")
        await say(http, name, "mine", parent=(await tree(http, name))["leaf"])
        await tab.until("end")
    assert tab.kinds().count("changed") == 1


async def test_what_runs_in_another_process_is_seen_and_stopped(
    halted: ScriptedEngine, server: Running, tmp_path: Path
) -> None:
    async with elsewhere(server, tmp_path) as other:
        http, far = server.http(), other.http()
        name = await begin(http)
        made = (await say(http, name, "Hi")).json()["id"]
        await until(lambda: halted.last.made >= 5)
        async with following(far, name) as tab:
            assert tab.events[0]["elsewhere"] is True
            refused = await say(far, name, "again")
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "turn_running")
            assert (await far.post(f"/page/turns/{made}/stop", json={})).json() == {"status": "cancelled"}
            await tab.until("changed")
            assert tab.last("state") == {"type": "state", "running": None, "elsewhere": False}
        assert (await tree(far, name))["turns"][-1]["answer"] == "Hello"
