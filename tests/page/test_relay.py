"""A turn that one API process makes is seen from every other one, as if it were made there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from chatserve.page.relay import Relay
from chatserve.page.rooms import Rooms
from chatserve.server.live import LiveResponses
from chatserve.text.tokenizer import Tokenizer
from tests.page.conftest import ANSWER
from tests.page.page_server import PageParts, open_page_parts
from tests.page.tab import begin, following, say, tree
from tests.server.running_server import serving
from tests.server.scripted import ScriptedEngine
from tests.server.test_disconnects import until


class Wire:
    """What a supervisor passes on, and how much of it."""

    def __init__(self) -> None:
        self.relays: list[Relay] = []
        self.passed: list[str] = []
        self.cut = False

    def relay(self) -> Relay:
        number = len(self.relays)
        relay = Relay(Rooms(), lambda said: self._pass(number, said))
        self.relays.append(relay)
        return relay

    def _pass(self, sender: int, said: str) -> None:
        self.passed.append(said)
        for number, relay in enumerate(self.relays):
            if number != sender and not self.cut:
                asyncio.get_running_loop().call_soon(relay.hear, said)


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
async def pair(
    tmp_path: Path, tokenizer: Tokenizer, engine: ScriptedEngine, wire: Wire
) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """Two processes of one server, the first of which makes the turns."""
    near, far = [await open_page_parts(tmp_path, tokenizer, engine) for _ in range(2)]
    near.relay, far.relay = wire.relay(), wire.relay()
    far.live = LiveResponses(near.live.hear)
    async with serving(near) as one, serving(far) as other:
        yield one.http(), other.http()
        await settled(near, far)
    for parts in (near, far):
        await parts.store.close()


async def settled(*all_parts: PageParts) -> None:
    for parts in all_parts:
        await parts.running.idle()


async def test_a_turn_is_followed_from_the_other_process(pair: Any, engine: ScriptedEngine) -> None:
    near, far = pair
    engine.pace = 0.01
    name = await begin(near)
    async with following(far, name) as tab, following(near, name) as own:
        await say(near, name, "*Hi*")
        end = await tab.until("end")
        assert end == await own.until("end")
        assert tab.kinds() == ["state", "turn", "end"]
        assert tab.last("turn") == own.last("turn")
        assert end["turn"]["answer"] == ANSWER
        await asyncio.sleep(1.2)  # a look at the store finds nothing new
        assert tab.kinds()[-1] == "end"


async def test_who_comes_later_is_told_all_of_it_and_may_stop_it(pair: Any, halted: ScriptedEngine) -> None:
    near, far = pair
    name = await begin(near)
    made = (await say(near, name, "Hi")).json()["id"]
    await until(lambda: halted.last.made == 5)
    async with following(far, name) as tab:
        assert tab.events[0] == {"type": "state", "running": None, "elsewhere": True}
        await tab.until("text")
        await until(lambda: tab.blocks == ["<p>Hello</p>\n"])
        async with following(far, name) as second:
            assert second.events[0] == {"type": "state", "running": made, "elsewhere": False}
            await until(lambda: second.blocks == ["<p>Hello</p>\n"])
        assert (await tree(far, name))["running"] == made
        refused = await say(far, name, "again")
        assert (refused.status_code, refused.json()["error"]["running"]) == (409, made)
        assert (await far.post(f"/page/turns/{made}/stop", json={})).json() == {"status": "cancelled"}
        end = await tab.until("end")
        assert (end["turn"]["status"], end["turn"]["answer"]) == ("cancelled", "Hello")


@pytest.mark.usefixtures("halted")
async def test_a_page_that_joins_one_from_afar_is_told_what_others_do(pair: Any) -> None:
    near, far = pair
    name = await begin(near)
    made = (await say(near, name, "Hi")).json()["id"]
    async with following(far, name) as tab:
        await tab.until("text")
        async with following(near, name) as own:
            await far.post(f"/page/conversations/{name}", json={"title": "New"})
            assert (await own.until("renamed"))["title"] == "New"
            await near.post(f"/page/turns/{made}/stop", json={})
            await own.until("end")


async def test_nothing_is_passed_on_that_nobody_follows(pair: Any, wire: Wire, engine: ScriptedEngine) -> None:
    near, far = pair
    engine.pace = 0.005
    name = await begin(near)
    async with following(near, name) as tab:
        await say(near, name, "Hi")
        await tab.until("end")
    assert len(wire.passed) == 1
    assert '"type":"Started"' in wire.passed[0]
    async with following(far, name):
        pass
    assert len(wire.passed) == 1


async def test_a_process_that_dies_takes_its_turn_along(
    pair: Any, wire: Wire, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = pair
    monkeypatch.setattr("chatserve.page.watch.EVERY", 0.05)
    engine.prefill = 60
    name = await begin(near)
    async with following(far, name) as tab:
        made = (await say(near, name, "Hi")).json()["id"]
        await tab.until("turn")
        wire.cut = True  # it says nothing any more, and holds nothing
        await near.post(f"/page/turns/{made}/stop", json={})
        await tab.until("changed")
        assert tab.last("state") == {"type": "state", "running": None, "elsewhere": False}
