"""What a page may ask for, and whose conversations it reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chatserve.server.edge import Edge
from chatserve.server.keys import KeyRing
from chatserve.server.meters import Meters
from chatserve.server.visit import Caller, Rates
from tests.page.conftest import ANSWER
from tests.page.page_server import PageParts
from tests.page.tab import begin, say, tree
from tests.server.running_server import Running, serving
from tests.server.test_keys import ALICE, BOB, bearer, keys_in


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"input": None}, 400, "input"),
        ({"input": ""}, 400, "input"),
        ({"input": ["x"]}, 400, "input"),
        ({"input": "x" * 1_000_001}, 400, "input"),
        ({"input": "x", "parent": 7}, 400, "parent"),
        ({"input": "x", "parent": "conv_x"}, 400, "parent"),
        ({"input": "x", "parent": "resp_nothing"}, 404, "parent"),
        ({"input": "x", "settings": []}, 400, "settings"),
        ({"input": "x", "settings": {"temprature": 1}}, 400, "settings"),
        ({"input": "x", "settings": {"temperature": 3}}, 400, "temperature"),
        ({"input": "x", "settings": {"temperature": "1"}}, 400, "temperature"),
        ({"input": "x", "settings": {"max_output_tokens": 0}}, 400, "max_output_tokens"),
        ({"input": "x", "settings": {"max_output_tokens": True}}, 400, "max_output_tokens"),
        ({"input": "x", "settings": {"top_k": [1]}}, 400, "top_k"),
        ({"input": "x", "instructions": 7}, 400, "instructions"),
    ],
)
async def test_what_cannot_be_asked_is_refused_and_begins_nothing(
    server: Running, body: dict[str, Any], status: int, param: str
) -> None:
    http = server.http()
    name = await begin(http)
    refused = await say(http, name, **{"text": None} | {"text": body.pop("input")}, **body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (status, param)
    assert server.engine.streams == []
    assert (await tree(http, name))["running"] is None


async def test_another_sites_page_can_send_nothing_unasked(server: Running) -> None:
    http = server.http()
    name = await begin(http)
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        for path in (f"/page/conversations/{name}/turns", "/page/turns/resp_x/stop"):
            refused = await http.post(path, content=b'{"input": "x"}', headers={"Content-Type": kind} if kind else {})
            assert refused.status_code == 415


async def test_nobody_reaches_another_ones_conversations(parts: PageParts, tmp_path: Path) -> None:
    parts.edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path)))
    parts.engine.prefill = 60
    async with serving(parts) as server:
        alice, bob = server.http(), server.http()
        alice.headers.update(bearer(ALICE))
        bob.headers.update(bearer(BOB))
        name = await begin(alice)
        made = (await say(alice, name, "Hi")).json()["id"]
        assert (await say(bob, name, "Hi")).status_code == 404
        assert (await bob.get(f"/page/conversations/{name}/events")).status_code == 404
        assert (await bob.post(f"/page/turns/{made}/stop", json={})).status_code == 404
        assert (await alice.post(f"/page/turns/{made}/stop", json={})).status_code == 200


async def test_a_turn_is_charged_when_it_has_ended(parts: PageParts, tmp_path: Path) -> None:
    rates = Caller("", rates=Rates(requests=None, tokens=len(ANSWER)))
    meters = Meters.share()
    parts.edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path, template=rates)), meters=Meters(meters))
    parts.engine.pace = 0.01
    async with serving(parts) as server:
        http = server.http()
        http.headers.update(bearer(ALICE))
        name = await begin(http)
        assert (await say(http, name, "Hi")).status_code == 202
        await parts.running.idle()
        refused = await say(http, name, "Hi")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
