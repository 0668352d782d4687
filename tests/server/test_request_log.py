"""One id and one line for each request: enough to find it again, and no word of anybody's."""

from __future__ import annotations

import logging
import re
import uuid
from pathlib import Path

import httpx
import pytest

from chatserve.server.edge import Edge
from chatserve.server.keys import KeyRing
from tests.server.running_server import Parts
from tests.server.test_keys import ALICE, CHAT, HELLO, client_of, keys_in

LINE = re.compile(r"^([0-9a-f-]+) (GET|POST|OTHER) (\S+|\(no route\)) -> (\d{3}) in \d+ ms(.*)$")


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, ...]]:
    found = [record.getMessage() for record in caplog.records if record.name == "chatserve.server.request_log"]
    matches = [LINE.match(line) for line in found]
    assert all(matches), found
    return [match.groups() for match in matches if match]


@pytest.mark.parametrize(
    "asked",
    ["0d3f1c5e-7a52-4c1b-9a66-2f8d3f0c9b71", "0d3f1c5e7a524c1b9a662f8d3f0c9b71", "4BF92F3577B34DA6A3CE929D0E0E4736"],
)
async def test_an_id_that_says_nothing_is_kept(api: httpx.AsyncClient, asked: str) -> None:
    assert (await api.get("/health", headers={"X-Request-Id": asked})).headers["x-request-id"] == asked


@pytest.mark.parametrize("asked", ["", "cafe", "a" * 65, "my-name-is-alice-1", "1234567890abcdef\t", "a b" * 8])
async def test_any_other_id_is_replaced(api: httpx.AsyncClient, asked: str) -> None:
    given = (await api.get("/health", headers={"X-Request-Id": asked})).headers["x-request-id"]
    assert given != asked
    assert uuid.UUID(given)


async def test_a_line_names_route_status_key_and_tokens(
    parts: Parts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    parts.edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path)))
    asked = str(uuid.uuid4())
    async with client_of(parts, ALICE) as client:
        await client.post(CHAT, json=HELLO, headers={"X-Request-Id": asked})
        await client.post(CHAT, json=HELLO | {"stream": True})
        await client.get("/v1/models/somebodys-name")
        await client.get("/somebodys-name")
        await client.request("SOMEBODY", "/health")
        await client.get("/v1/models", headers={"Authorization": "Bearer none"})
    found = lines(caplog)
    tokens = re.compile(r", key alice, 24 prompt tokens \((\d+) reused\), 21 answered")
    assert found[0][:4] == (asked, "POST", CHAT, "200")
    assert [tokens.fullmatch(more)[1] for *_, more in found[:2]] == ["0", "23"]  # type: ignore[index]
    assert [line[1:] for line in found[2:]] == [
        ("GET", "/v1/models/{model_id:path}", "404", ", key alice"),
        ("GET", "(no route)", "404", ", key alice"),
        ("OTHER", "/health", "405", ", key alice"),
        ("GET", "(no route)", "401", ""),
    ]


async def test_a_failure_nobody_foresaw_has_its_line_and_id_too(parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    parts.engine.submit = None  # type: ignore[assignment]
    async with client_of(parts) as client:
        response = await client.post(CHAT, json=HELLO)
    assert response.status_code == 500
    assert lines(caplog)[0][0] == response.headers["x-request-id"]
