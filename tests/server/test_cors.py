"""Pages of other origins: those that the operator named read every answer, errors too; all others none."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from chatserve.cli import parser
from chatserve.server.edge import Edge
from chatserve.server.keys import KeyRing
from chatserve.server.limits import ServerLimits
from tests.server.running_server import Parts
from tests.server.test_keys import ALICE, CHAT, HELLO, bearer, client_of, keys_in

PAGE, FOREIGN = "https://chat.example", "https://evil.example"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


def cors_headers(response: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("access-control-")}


async def every_kind_of_answer(parts: Parts, origin: str) -> list[httpx.Response]:
    """200, a stream, 400, 401, 404, 405, 413 and 500, as a page of that origin gets them."""
    headers = {"Origin": origin}
    said = HELLO | {"stream": True}
    async with client_of(parts, ALICE) as client:
        answers = [
            await client.post(CHAT, json=HELLO, headers=headers),
            await client.post(CHAT, json=said, headers=headers),
            await client.post(CHAT, json=HELLO | {"temperature": 9}, headers=headers),
            await client.post(CHAT, json=HELLO, headers=headers | bearer("unknown-secret-1234")),
            await client.get("/nowhere", headers=headers),
            await client.get(CHAT, headers=headers),
            await client.post(CHAT, content=b" " * 5000, headers=headers | {"Content-Type": "application/json"}),
        ]
        parts.engine.submit = None  # type: ignore[assignment]
        return [*answers, await client.post(CHAT, json=HELLO, headers=headers)]


@pytest.fixture
def paged(parts: Parts, tmp_path: Path) -> Parts:
    parts.limits = ServerLimits(body_bytes=4096)
    parts.edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path)), origins=(PAGE,))
    return parts


async def test_an_allowed_page_reads_every_answer(paged: Parts) -> None:
    """A35: an error that a browser reports as one of CORS hides what went wrong."""
    answers = await every_kind_of_answer(paged, PAGE)
    assert [answer.status_code for answer in answers] == [200, 200, 400, 401, 404, 405, 413, 500]
    for answer in answers:
        found = cors_headers(answer)
        assert found["access-control-allow-origin"] == PAGE, answer.status_code
        assert "access-control-allow-credentials" not in found
        assert "X-Request-Id" in found["access-control-expose-headers"]
        assert answer.headers["x-request-id"]
        assert "Origin" in answer.headers["vary"]


async def test_a_foreign_page_reads_none(paged: Parts) -> None:
    for origin in (FOREIGN, "null", "", PAGE + "/", PAGE + ".evil.example", PAGE.upper()):
        paged.engine.submit = type(paged.engine).submit.__get__(paged.engine)
        for answer in await every_kind_of_answer(paged, origin):
            assert cors_headers(answer) == {}


async def test_a_preflight_asks_for_no_key_and_a_foreign_one_learns_nothing(paged: Parts) -> None:
    async with client_of(paged) as client:
        allowed = await client.options(CHAT, headers=PREFLIGHT | {"Origin": PAGE})
        assert allowed.status_code == 200
        assert cors_headers(allowed)["access-control-allow-origin"] == PAGE
        assert "authorization" in cors_headers(allowed)["access-control-allow-headers"]
        foreign = await client.options(CHAT, headers=PREFLIGHT | {"Origin": FOREIGN})
        assert (foreign.status_code, cors_headers(foreign)) == (401, {})
    assert paged.engine.streams == []


async def test_any_origin_may_be_allowed_and_never_with_a_browsers_own_credentials(parts: Parts) -> None:
    parts.edge = Edge(origins=("*",))
    async with client_of(parts) as client:
        answer = await client.post(CHAT, json=HELLO, headers={"Origin": FOREIGN, "Cookie": "a=b"})
        assert cors_headers(answer)["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in answer.headers


async def test_without_an_option_no_page_is_allowed(api: httpx.AsyncClient) -> None:
    assert cors_headers(await api.post(CHAT, json=HELLO, headers={"Origin": PAGE})) == {}


@pytest.mark.parametrize("wrong", ["chat.example", PAGE + "/", PAGE + "/chat", "https://Chat.example", "**", ""])
def test_an_origin_that_no_browser_sends_is_refused_at_the_start(wrong: str, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["serve", "--cors-origin", wrong])
    assert "is no origin" in capsys.readouterr().err
