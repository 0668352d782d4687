"""What one key has made is not there for another: never a 403 that would say that it is."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.routing import Route

from chatserve.server.edge import OPEN, Edge
from chatserve.server.keys import KeyRing
from tests.server.running_server import Parts, Running, serving
from tests.server.test_disconnects import until
from tests.server.test_keys import ALICE, BOB, CHAT, HELLO, ROOT, bearer, keys_in

SECRET = "plugh"


@pytest.fixture(params=["own prefixes", "shared prefixes"])
async def guarded(parts: Parts, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    """Sharing prefixes shares nothing else."""
    template = replace(OPEN, shares_prefixes=request.param == "shared prefixes")
    parts.edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path, template=template)))
    async with serving(parts) as running:
        yield running


def http_of(server: Running, secret: str) -> httpx.AsyncClient:
    client = server.http()
    client.headers.update(bearer(secret))
    return client


async def made_by(alice: httpx.AsyncClient) -> dict[str, str]:
    """One of everything that has an id, by the name of its place in a route."""
    said = {"items": [{"role": "user", "content": SECRET}], "metadata": {"title": SECRET}}
    conversation = (await alice.post("/v1/conversations", json=said)).json()["id"]
    asked = {"input": SECRET, "conversation": conversation}
    response = (await alice.post("/v1/responses", json=asked)).json()["id"]
    item = (await alice.get(f"/v1/conversations/{conversation}/items")).json()["first_id"]
    await alice.post(CHAT, json={"messages": [{"role": "user", "content": SECRET}], "session_id": "diary"})
    return {"conversations": conversation, "responses": response, "item_id": item, "sessions": "diary"}


def paths_of(server: Running, made: dict[str, str]) -> set[tuple[str, str]]:
    """Every route that has an id in it, with what was made in its place."""
    found = set()
    for route in server.parts.routes().routes:
        assert isinstance(route, Route)
        if "{" not in route.path or route.path.startswith("/v1/models"):
            continue
        kind = route.path.split("/")[2]
        path = re.sub(r"{item_id}", made["item_id"], route.path)
        path = re.sub(r"{\w+}", made[kind], path)
        found |= {(method, path) for method in (route.methods or ()) if method != "HEAD"}
    return found


async def test_every_route_with_an_id_is_404_for_every_other_key(guarded: Running) -> None:
    alice = http_of(guarded, ALICE)
    made = await made_by(alice)
    paths = paths_of(guarded, made)
    assert len(paths) >= 10
    before = len(guarded.engine.streams)
    for secret in (BOB, ROOT):
        other = http_of(guarded, secret)
        for method, path in sorted(paths):
            body = {"items": [{"role": "user", "content": "x"}], "metadata": {}} if method == "POST" else None
            response = await other.request(method, path, json=body)
            assert response.status_code == 404, (method, path, response.text)
            assert SECRET not in response.text
    assert len(guarded.engine.streams) == before
    for method, path in sorted(paths):
        if method == "GET":
            assert (await alice.get(path)).status_code == 200, path


async def test_nobody_goes_on_with_anothers_answer_or_conversation(guarded: Running) -> None:
    made = await made_by(http_of(guarded, ALICE))
    bob = http_of(guarded, BOB)
    for where in ({"conversation": made["conversations"]}, {"previous_response_id": made["responses"]}):
        response = await bob.post("/v1/responses", json={"input": "what did I say?"} | where)
        assert response.status_code == 404
    known = [{"role": "user", "content": SECRET}, {"role": "assistant", "content": "Hello there, friend."}]
    answered = await bob.post(CHAT, json={"messages": [*known, *HELLO["messages"]]})
    assert answered.status_code == 200  # bob may say the same words; they begin a conversation of his own
    assert (await bob.get("/v1/conversations")).json()["data"] == []


async def test_lists_hold_ones_own_only(guarded: Running) -> None:
    names = {secret: (await made_by(http_of(guarded, secret)))["conversations"] for secret in (ALICE, BOB)}
    for secret, other in ((ALICE, BOB), (BOB, ALICE)):
        listed = (await http_of(guarded, secret).get("/v1/conversations")).json()["data"]
        ids = {each["id"] for each in listed}
        assert names[secret] in ids
        assert names[other] not in ids
        assert len(ids) == 2  # and the chat's session


async def test_an_answer_under_way_is_neither_seen_nor_ended_by_another(guarded: Running) -> None:
    guarded.engine.pace = 0.02
    alice, bob = http_of(guarded, ALICE), http_of(guarded, BOB)
    async with alice.stream("POST", "/v1/responses", json={"input": SECRET, "stream": True}) as stream:
        lines = stream.aiter_lines()
        name = await first_id(lines)
        assert (await bob.get(f"/v1/responses/{name}")).status_code == 404
        assert (await bob.post(f"/v1/responses/{name}/cancel")).status_code == 404
        assert (await alice.get(f"/v1/responses/{name}")).json()["status"] == "in_progress"
        rest = "".join([line async for line in lines])
    assert "response.completed" in rest
    await until(lambda: not guarded.parts.running)


async def first_id(lines: AsyncIterator[str]) -> str:
    async for line in lines:
        if line.startswith("data: "):
            event: dict[str, Any] = json.loads(line[6:])
            return str(event["response"]["id"])
    raise AssertionError("no event came")


async def test_two_keys_may_name_their_sessions_alike(guarded: Running) -> None:
    clients = [http_of(guarded, secret) for secret in (ALICE, BOB)]
    bodies = [{"messages": [{"role": "user", "content": f"I am {name}"}], "session_id": "s"} for name in "ab"]
    await asyncio.gather(*(client.post(CHAT, json=body) for client, body in zip(clients, bodies, strict=True)))
    for client, mine, theirs in ((clients[0], "I am a", "I am b"), (clients[1], "I am b", "I am a")):
        await client.post(CHAT, json=HELLO | {"session_id": "s"})
        text = guarded.parts.tokenizer.decode(guarded.engine.prompt_ids())
        assert mine in text
        assert theirs not in text
