"""The edge as a whole, made from its settings: what it closes, and what a stream costs behind it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from starlette.types import Message

from chatserve.commands.edge import open_edge
from chatserve.server.control import EdgeSettings
from chatserve.server.meters import Meters
from chatserve.server.visit import Rates
from tests.server.running_server import Parts
from tests.server.test_keys import ALICE, BOB, CHAT, FILE, HELLO, client_of

PAGE = "https://chat.example"


def callers() -> set[str]:
    """The files of all functions that led here."""
    files, frame = set(), sys._getframe(1)
    while frame is not None:
        files.add(Path(frame.f_code.co_filename).name)
        frame = frame.f_back  # type: ignore[assignment]
    return files


async def test_no_part_of_the_edge_touches_what_is_streamed(parts: Parts) -> None:
    """An event a token is a lot of calls: headers go through the edge, events go past it."""
    meters = Meters.share()
    parts.edge = open_edge(EdgeSettings(key=ALICE, origins=(PAGE,), requests=100, tokens=10_000), meters)
    seen: dict[str, set[str]] = {}
    inner = parts.app()

    async def watching(scope, receive, send):
        async def watch(message: Message) -> None:
            seen[message["type"]] = seen.get(message["type"], set()) | callers()
            await send(message)

        await inner(scope, receive, watch)

    parts.app = lambda: watching  # type: ignore[method-assign]
    async with client_of(parts, ALICE) as client:
        for path, body in ((CHAT, HELLO | {"stream": True}), ("/v1/responses", {"input": "Hi", "stream": True})):
            response = await client.post(path, json=body, headers={"Origin": PAGE})
            assert response.headers["access-control-allow-origin"] == PAGE
    edge = {"request_log.py", "cors.py", "gatekeeper.py", "rate_limit.py", "edge.py"}
    assert {"request_log.py", "cors.py"} <= seen["http.response.start"]
    assert seen["http.response.body"] & edge == set()
    os.close(meters)


async def test_a_server_is_as_open_or_closed_as_its_settings_say(parts: Parts, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(FILE)
    meters = Meters.share()
    lone = EdgeSettings(key=BOB)
    filed = EdgeSettings(keys_file=str(tmp_path / "keys"), public_metrics=True)
    for settings, with_alice, with_bob, metrics in (
        (EdgeSettings(), 200, 200, 200),
        (lone, 401, 200, 401),
        (filed, 200, 200, 200),
    ):
        assert settings.keyed == (settings in (lone, filed))
        parts.edge = open_edge(settings, meters)
        async with client_of(parts, ALICE) as alice, client_of(parts, BOB) as bob, client_of(parts) as nobody:
            assert (await alice.get("/v1/models")).status_code == with_alice
            assert (await bob.get("/v1/models")).status_code == with_bob
            assert (await nobody.get("/metrics")).status_code == metrics
            assert (await nobody.get("/v1/models")).status_code == (401 if settings.keyed else 200)
    os.close(meters)


def test_every_key_has_the_rates_of_the_server_and_shares_what_it_says() -> None:
    meters = Meters.share()
    edge = open_edge(EdgeSettings(key=ALICE, share_prefixes=True, requests=7), meters)
    assert edge.keys is not None
    caller = edge.keys.holder(ALICE)
    assert caller is not None
    assert (caller.rates, caller.shares_prefixes, caller.admin) == (Rates(7, None), True, True)
    assert caller.prefixes("salt") == "salt"
    assert caller.conversations("salt") == "default\x1fsalt"
    os.close(meters)
