"""What one request may hold, as the operator set it: bytes, messages, characters."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from chatserve.cli import parser
from chatserve.server.limits import ServerLimits
from tests.server.running_server import Parts
from tests.server.test_keys import client_of


def said(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in texts]


@pytest.fixture
async def small(parts: Parts) -> AsyncIterator[httpx.AsyncClient]:
    parts.limits = ServerLimits(body_bytes=2000, messages=3, text=20)
    async with client_of(parts) as client:
        yield client


async def codes(client: httpx.AsyncClient, path: str, *bodies: dict[str, Any]) -> list[tuple[int, str | None]]:
    answers = [await client.post(path, json=body) for body in bodies]
    return [(answer.status_code, (answer.json().get("error") or {}).get("param")) for answer in answers]


async def test_text_is_bounded_over_all_messages_on_every_endpoint(small: httpx.AsyncClient) -> None:
    fits, long = said("x" * 10, "x" * 10), said("x" * 10, "x" * 11)
    chat = await codes(small, "/v1/chat/completions", {"messages": fits}, {"messages": long})
    assert chat == [(200, None), (400, "messages")]
    raw = await codes(small, "/v1/completions", {"prompt": "x" * 20}, {"prompt": "x" * 21})
    assert raw == [(200, None), (400, "prompt")]
    asked = ({"input": "x" * 20}, {"input": "x" * 21}, {"input": fits}, {"input": long})
    assert await codes(small, "/v1/responses", *asked) == [(200, None), (400, "input")] * 2
    told = await codes(small, "/v1/responses", {"input": "x" * 10, "instructions": "x" * 11})
    assert told == [(400, "input")]
    made = await codes(small, "/v1/conversations", {"items": fits}, {"items": long})
    assert made == [(200, None), (400, "items")]
    name = (await small.post("/v1/conversations", json={})).json()["id"]
    added = await codes(small, f"/v1/conversations/{name}/items", {"items": fits}, {"items": long})
    assert added == [(200, None), (400, "items")]


async def test_so_are_messages_and_bytes(small: httpx.AsyncClient) -> None:
    many = said("a", "b", "c", "d")
    for path, name in (("chat/completions", "messages"), ("responses", "input"), ("conversations", "items")):
        assert await codes(small, f"/v1/{path}", {name: many}) == [(400, name)]
        assert (await small.post(f"/v1/{path}", json={name: said("x" * 2000)})).status_code == 413


def test_they_are_options_of_the_server() -> None:
    chosen = parser().parse_args(["serve", "--max-body", "4M", "--max-messages", "7", "--max-text", "9"])
    assert (chosen.max_body, chosen.max_messages, chosen.max_text) == (4 << 20, 7, 9)
    usual, limits = parser().parse_args(["serve"]), ServerLimits()
    assert (usual.max_body, usual.max_messages, usual.max_text) == (limits.body_bytes, limits.messages, limits.text)
