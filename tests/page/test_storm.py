"""Many people at once, who come, go, stop and start again: nothing is lost, doubled, or kept for nobody."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import httpx
import pytest

from chatserve.engine.messages import Generate
from tests.page.page_server import PageParts
from tests.page.tab import begin, following, say, tree
from tests.server.running_server import Running
from tests.server.test_disconnects import until

PEOPLE, TURNS = 8, 6


async def talk(http: httpx.AsyncClient, seed: int) -> tuple[str, list[str]]:
    """One person's conversation, and the turns that were taken."""
    chance = random.Random(seed)
    name, taken = await begin(http), []
    for _ in range(TURNS):
        parent = chance.choice([None, *taken])
        if chance.random() < 0.3:
            taken.append((await say(http, name, "unseen", parent=parent)).json()["id"])
            await ended(http, name)
            continue
        async with following(http, name) as tab:
            made = (await say(http, name, "seen", parent=parent)).json()["id"]
            taken.append(made)
            if chance.random() < 0.4:
                await asyncio.sleep(chance.random() * 0.05)
                assert (await http.post(f"/page/turns/{made}/stop", json={})).status_code == 200
            if chance.random() < 0.7:
                await tab.until_end_of(made)
        await ended(http, name)
    return name, taken


async def ended(http: httpx.AsyncClient, name: str) -> None:
    while (await tree(http, name))["running"] is not None:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", range(2))
async def test_every_turn_that_was_taken_is_there_once(server: Running, seed: int) -> None:
    words = server.parts.tokenizer.encode("Some *words*, and\n\n`more` of them.\n\n")

    def script(request: Generate) -> Iterator[int]:
        chance = random.Random(request.id)
        yield from words * chance.randint(1, 6)

    server.engine.script = script  # type: ignore[assignment]
    server.engine.pace = 0.0005
    https = [server.http() for _ in range(PEOPLE)]
    talks = await asyncio.gather(*(talk(http, seed * PEOPLE + number) for number, http in enumerate(https)))
    for name, taken in talks:
        turns = (await tree(https[0], name))["turns"]
        assert [turn["id"] for turn in turns if turn["answer"] is not None] == taken
        assert {turn["status"] for turn in turns} <= {"completed", "cancelled"}
    assert isinstance(server.parts, PageParts)
    rooms = server.parts.relay.rooms
    await server.parts.running.idle()
    await until(lambda: not len(rooms), 5)
    assert len(server.parts.store.holds) == 0
