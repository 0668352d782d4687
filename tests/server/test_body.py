"""Bodies: bounded while they are read, and refused in the API's shape when they are not a JSON object of text."""

from __future__ import annotations

import asyncio
import json
import time

import httpx
import psutil
import pytest

from chatserve.server.limits import ServerLimits
from chatserve.text.tokenizer import Tokenizer
from tests.server.running_server import Parts, Running, serving
from tests.server.scripted import ScriptedEngine
from tests.server.wire_client import WireClient

JSON = {"Content-Type": "application/json"}
PATHS = ["/v1/chat/completions", "/v1/completions"]
SURROGATE = b'"\\ud800"'


def body_with(part: bytes, stream: bool) -> bytes:
    flag = b"true" if stream else b"false"
    return b'{"messages": [{"role": "user", "content": "Hi"}], "prompt": "Hi", "stream": ' + flag + b", " + part + b"}"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "part",
    [
        b'"messages": [{"role": "user", "content": ' + SURROGATE + b"}]",
        b'"messages": [{"role": ' + SURROGATE + b', "content": "x"}]',
        b'"unknown": {"deep": [' + SURROGATE + b"]}",
        SURROGATE + b": 1",
        b'"stop": "\\udc00\\ud800"',
        b'"user": "\xff\xfe"',
        b'"user": "truncated',
        b'"user": "zero \x00 byte"',
        b'"user": ' + b"[" * 10_000 + b"]" * 10_000,
        b'"seed": ' + b"1" * 5000,
        b'"user": }',
    ],
)
async def test_what_is_no_text_is_refused_before_anything_is_begun(
    api: httpx.AsyncClient, engine: ScriptedEngine, path: str, stream: bool, part: bytes
) -> None:
    """A39"""
    response = await api.post(path, content=body_with(part, stream), headers=JSON)
    assert response.status_code == 400, response.text
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert len(response.content) < 500
    assert engine.streams == []


@pytest.mark.parametrize("body", [b"", b"[]", b'"text"', b"null", b"1", b"{", b"NaN", b"\x00", b"\xef\xbb\xbf{}"])
@pytest.mark.parametrize("path", PATHS)
async def test_what_is_no_object_is_refused(api: httpx.AsyncClient, path: str, body: bytes) -> None:
    """A39"""
    response = await api.post(path, content=body, headers=JSON)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_json"


async def test_another_content_type_is_refused(api: httpx.AsyncClient) -> None:
    """A39"""
    response = await api.post(PATHS[0], content=b"{}", headers={"Content-Type": "text/plain\u00e9".encode("latin-1")})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "content_type"


async def test_a_repeated_key_counts_as_its_last_value_and_a_whole_pair_is_text(
    api: httpx.AsyncClient, engine: ScriptedEngine, tokenizer: Tokenizer
) -> None:
    """A39"""
    content = b'"max_tokens": 1, "max_tokens": 2, "messages": [{"role": "user", "content": "\\ud83d\\ude00"}]'
    response = await api.post(PATHS[0], content=body_with(content, stream=False), headers=JSON)
    assert response.json()["usage"]["completion_tokens"] == 2
    assert "\N{GRINNING FACE}" in tokenizer.decode(engine.prompt_ids())


HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


async def test_a_body_over_the_limit_is_refused_by_its_claimed_length_at_once(server: Running) -> None:
    """A36"""
    client = await WireClient.connect(server.port)
    await client.send(HEAD + b"Content-Length: 67108864\r\n\r\n")
    status, headers = await client.head()
    assert status == 413
    assert (await client.json(headers))["error"]["code"] == "body_too_large"


async def test_a_body_without_a_length_is_refused_while_it_is_read(server: Running) -> None:
    """A36: and what is still sent is thrown away."""
    client = await WireClient.connect(server.port)
    await client.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    memory = psutil.Process().memory_info().rss
    for _ in range(64):
        await client.send(b"100000\r\n" + b"[" * 2**20 + b"\r\n")
    status, headers = await client.head()
    assert status == 413
    assert (await client.json(headers))["error"]["code"] == "body_too_large"
    assert psutil.Process().memory_info().rss - memory < 32 * 2**20


async def test_a_client_that_sends_too_much_gets_the_refusal_and_keeps_its_connection(server: Running) -> None:
    """A36"""
    async with server.http() as client:
        assert (await client.post(PATHS[0], content=b"[" * 8 * 2**20, headers=JSON)).status_code == 413
        assert (await client.post(PATHS[0], json={"messages": [{"role": "user", "content": "Hi"}]})).status_code == 200


async def test_a_body_that_dawdles_is_given_up(parts: Parts) -> None:
    parts.limits = ServerLimits(body_seconds=0.1)
    async with serving(parts) as server:
        client = await WireClient.connect(server.port)
        await client.send(HEAD + b"Content-Length: 100\r\n\r\n{")
        status, headers = await client.head()
        assert status == 408
        assert (await client.json(headers))["error"]["code"] == "body_timeout"


async def test_large_bodies_do_not_hold_up_anyone_else(server: Running) -> None:
    """A36: one word of a megabyte and 50 000 tiny messages, while health and a live stream are watched."""
    word = json.dumps({"messages": [{"role": "user", "content": "x" * 1_000_000}]})
    tiny = json.dumps({"messages": [{"role": "user", "content": "x"}] * 50_000})
    gaps: list[float] = []

    async def watch() -> None:
        async with server.http() as client:
            while True:
                began = time.perf_counter()
                assert (await client.get("/health")).status_code == 200
                gaps.append(time.perf_counter() - began)
                await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch())
    async with server.http() as client:
        asked = [client.post(PATHS[0], content=body, headers=JSON) for body in (word, tiny, word)]
        replies = await asyncio.gather(*asked)
    watching.cancel()
    assert [reply.status_code for reply in replies] == [400, 400, 400]
    assert max(gaps) < 0.75, f"health waited {max(gaps):.2f} s"
