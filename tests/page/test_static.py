"""The page's files, and what a browser may do with them."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route

from chatserve.page.policy import HEADERS
from chatserve.page.settings import PATH as SETTINGS
from chatserve.page.static import WEB, read_files
from chatserve.server.edge import Edge
from chatserve.server.gatekeeper import PUBLIC
from chatserve.server.keys import KeyRing
from tests.page.page_server import PageParts
from tests.server.running_server import MODEL
from tests.server.test_keys import ALICE, client_of, keys_in, refused, spellings

PAGES = ["/", "/web/index.html", "/web/nothing.js", "/page/settings", "/page/nothing"]


async def test_the_page_is_at_the_root(page: httpx.AsyncClient) -> None:
    index = await page.get("/")
    assert (index.status_code, index.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert index.content == (WEB / "index.html").read_bytes()
    assert (await page.get("/web/index.html")).content == index.content
    assert (await page.head("/")).status_code == 200


async def test_every_file_says_what_it_is_and_is_sent_once(page: httpx.AsyncClient) -> None:
    for path, file in read_files().items():
        first = await page.get(path)
        assert first.content == file.content
        assert first.headers["content-type"].partition(";")[0] == file.kind
        assert first.headers["cache-control"] == "no-cache"
        again = await page.get(path, headers={"If-None-Match": f'"other", {first.headers["etag"]}'})
        assert (again.status_code, again.content) == (304, b"")


async def test_whoever_takes_it_packed_gets_it_packed(page: httpx.AsyncClient) -> None:
    sizes = {}
    for asked in ("identity", "gzip;q=0", "br", "gzip, deflate, br", "deflate, gzip;q=0.5"):
        response = await page.get("/web/strings.js", headers={"Accept-Encoding": asked})
        assert response.content == (WEB / "strings.js").read_bytes()
        assert response.headers["vary"] == "Accept-Encoding"
        sizes[asked] = int(response.headers["content-length"])
    plain, *_, packed = sorted(set(sizes.values()), reverse=True)
    assert list(sizes.values()) == [plain, plain, plain, packed, packed]
    assert packed < plain / 2


@pytest.mark.parametrize("path", PAGES)
async def test_all_of_it_carries_the_policy(page: httpx.AsyncClient, path: str) -> None:
    """A37"""
    response = await page.get(path)
    assert {name: response.headers[name] for name in HEADERS} == HEADERS
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


async def test_the_api_is_as_it_was(page: httpx.AsyncClient) -> None:
    assert "content-security-policy" not in (await page.get("/v1/models")).headers


@pytest.mark.parametrize(
    "path",
    [
        "../pyproject.toml",
        "..%2fpyproject.toml",
        "%2e%2e/pyproject.toml",
        "__init__.py",
        "",
        "/etc/passwd",
        "index.HTML",
    ],
)
async def test_nothing_else_is_a_file(page: httpx.AsyncClient, path: str) -> None:
    response = await page.get(f"/web/{path}")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "route_not_found"


def test_only_what_a_page_is_made_of_is_read(tmp_path: Path) -> None:
    for name in ("a.js", "b.py", "c.css", "d", "e.js.map", "f.json"):
        (tmp_path / name).write_text("x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "g.svg").write_text("x")
    assert list(read_files(tmp_path)) == ["/web/a.js", "/web/c.css", "/web/sub/g.svg"]


async def test_the_settings_are_what_a_page_begins_with(page: httpx.AsyncClient, parts: PageParts) -> None:
    said = (await page.get("/page/settings")).json()
    assert said["model"] == MODEL
    assert said["models"] == [MODEL]
    assert said["max_model_len"] == 4096
    assert said["defaults"] == {"temperature": 1.0, "top_p": 1.0, "max_output_tokens": None}
    assert said["limits"] == {"input_characters": parts.limits.text}
    assert said["needs_key"] is False
    parts.engine.info = None
    loading = (await page.get("/page/settings")).json()
    assert (loading["model"], loading["max_model_len"], loading["defaults"]) == (MODEL, None, None)


async def test_without_a_key_the_page_comes_and_learns_that_it_needs_one(parts: PageParts, tmp_path: Path) -> None:
    parts.edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path)))
    async with client_of(parts) as nobody, client_of(parts, "wrong" * 8) as wrong, client_of(parts, ALICE) as alice:
        for client in (nobody, wrong):
            assert (await client.get("/")).status_code == 200
            assert all([(await client.get(path)).status_code == 200 for path in read_files()])
            assert (await client.get("/page/settings")).json() == {"needs_key": True}
            assert (await client.get("/web/nothing.js")).status_code == 401
        said = (await alice.get("/page/settings")).json()
        assert (said["needs_key"], said["model"]) == (True, MODEL)


async def test_every_other_route_of_the_page_asks_for_a_key(parts: PageParts, tmp_path: Path) -> None:
    """A34"""
    parts.edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path)))
    routes = [route for route in parts.routes().routes if isinstance(route, Route) and "/page/" in route.path]
    paths = {re.sub(r"{.*?}", "x", route.path) for route in routes} | {"/web", "/web/x.js", "/page"}
    public = {"/", SETTINGS, *read_files(), *PUBLIC}
    app = parts.app()
    for path in {spelled for each in paths for spelled in spellings(each)} - public:
        for method in ("GET", "POST", "DELETE", "HEAD"):
            assert (await refused(app, method, path))["status"] == 401
