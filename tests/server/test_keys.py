"""API keys: nothing is reached without one but what is public, and nobody reaches another one's conversations."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from openai import AsyncOpenAI, AuthenticationError, PermissionDeniedError
from starlette.routing import Route
from starlette.types import ASGIApp, Message

from chatserve.server.edge import OPEN, Edge
from chatserve.server.gatekeeper import METRICS, PUBLIC
from chatserve.server.keys import Key, KeyRing, KeysUnusable, lone_key, read_keys
from chatserve.server.visit import Caller, Rates
from tests.server.running_server import Parts, Running, serving

ALICE, BOB, ROOT = "alice-secret-1234567", "bob-secret-123456789", "root-secret-12345678"
FILE = f"# who may ask\nalice:{ALICE}\n\nbob:{BOB}\nroot:{ROOT} admin\n"
CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "Hello"}]}


def keys_in(folder: Path, text: str = FILE, template: Caller = OPEN) -> Sequence[Key]:
    path = folder / "keys"
    path.write_text(text)
    return read_keys(path, template)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def client_of(parts: Parts, secret: str | None = None) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=parts.app(), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://test", headers=bearer(secret) if secret else {})


@pytest.fixture
def keyed(parts: Parts, tmp_path: Path) -> Parts:
    parts.edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path)))
    return parts


@pytest.fixture
async def guarded(keyed: Parts) -> AsyncIterator[Running]:
    async with serving(keyed) as running:
        yield running


def spellings(path: str) -> list[str]:
    return [path, f"{path}/", f"/{path}", path.upper(), f"/.{path}", f"/x/..{path}", f"{path}\x00", f"{path};x"]


async def refused(app: ASGIApp, method: str, path: str, headers: Sequence[tuple[str, str]] = ()) -> Message:
    """The start of an answer to a path exactly as it is written, which a client would tidy up."""
    sent: list[Message] = []
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]


async def test_every_route_in_every_spelling_asks_for_a_key(keyed: Parts) -> None:
    """A34: no key, a wrong one, an empty one, another scheme, two at once; only the listed paths answer, as listed."""
    paths = [re.sub(r"{.*?}", "x", route.path) for route in keyed.routes().routes if isinstance(route, Route)]
    assert CHAT in paths
    paths += ["/", "/docs", "/openapi.json", "/static/app.js", "/v1", "/v1/anything/new", "/admin"]
    wrong: list[list[tuple[str, str]]] = [
        [],
        [("Authorization", "Bearer wrong-secret-12345678")],
        [("Authorization", "Bearer ")],
        [("Authorization", "")],
        [("Authorization", f"Basic {ALICE}")],
        [("Authorization", ALICE)],
        [("Authorization", f"Bearer {ALICE}"), ("Authorization", f"Bearer {ALICE}")],
        [("X-Api-Key", ALICE)],
        [("Cookie", f"key={ALICE}")],
    ]
    app = keyed.app()
    for path in {spelled for each in paths for spelled in spellings(each)} - PUBLIC:
        for method in ("GET", "HEAD", "POST", "OPTIONS", "DELETE", "TRACE"):
            assert (await refused(app, method, path))["status"] == 401, (method, path)
        for headers in wrong:
            start = await refused(app, "POST", path, headers)
            assert (start["status"], dict(start["headers"])[b"www-authenticate"]) == (401, b"Bearer"), (headers, path)
    assert keyed.engine.streams == []


async def test_a_refusal_is_in_openais_shape_and_names_no_key(keyed: Parts) -> None:
    async with client_of(keyed) as client:
        for headers, code in (({}, "missing_api_key"), (bearer(BOB + "x"), "invalid_api_key")):
            response = await client.post(f"{CHAT}?api_key={ALICE}", json=HELLO, headers=headers)
            error = response.json()["error"]
            assert (response.status_code, error["type"], error["code"]) == (401, "invalid_request_error", code)
            assert BOB not in response.text
            assert response.headers["x-request-id"]


async def test_the_public_routes_are_few_and_take_no_key(keyed: Parts) -> None:
    assert {"/health", "/ready"} == PUBLIC
    async with client_of(keyed) as client:
        for path in PUBLIC:
            assert (await client.get(path)).status_code == 200
        assert (await client.get("/metrics")).status_code == 401
    keyed.edge = replace(keyed.edge, public=PUBLIC | {METRICS})
    async with client_of(keyed) as client:
        assert (await client.get("/metrics")).status_code == 200


async def test_the_official_client_reads_a_refusal_as_what_it_is(guarded: Running) -> None:
    client = AsyncOpenAI(base_url=f"{guarded.url}/v1", api_key="wrong-secret-12345678", max_retries=0)
    guarded.clients.append(client)
    with pytest.raises(AuthenticationError) as refused:
        await client.models.list()
    assert refused.value.code == "invalid_api_key"
    known = client.with_options(api_key=ALICE)
    answer = await known.chat.completions.create(model="scripted/model", messages=HELLO["messages"])
    assert answer.choices[0].finish_reason == "stop"
    with pytest.raises(PermissionDeniedError):
        await known.post("/../admin/flush", cast_to=object)


async def test_operators_routes_are_for_admins(keyed: Parts) -> None:
    for secret, status in ((ALICE, 403), (ROOT, 200)):
        async with client_of(keyed, secret) as client:
            assert (await client.get("/admin/stats")).status_code == status
            assert (await client.post("/admin/flush")).status_code == status
    assert keyed.engine.flushes == 1


async def test_a_session_of_one_key_is_another_session_with_another(keyed: Parts) -> None:
    said = {"messages": [{"role": "user", "content": "the word is plugh"}], "session_id": "s"}
    async with client_of(keyed, ALICE) as alice, client_of(keyed, BOB) as bob:
        assert (await alice.post(CHAT, json=said)).status_code == 200
        reply = await bob.post(CHAT, json=said | HELLO)
        assert reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        assert "plugh" not in keyed.tokenizer.decode(keyed.engine.prompt_ids())
        again = await alice.post(CHAT, json=said | HELLO)
        assert again.json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        assert "plugh" in keyed.tokenizer.decode(keyed.engine.prompt_ids())


async def test_prefixes_are_each_keys_own_unless_the_operator_shares_them(keyed: Parts, tmp_path: Path) -> None:
    sharing = replace(OPEN, shares_prefixes=True)
    for template, shared in ((OPEN, False), (sharing, True)):
        keyed.edge = Edge(keys=KeyRing(lambda template=template: keys_in(tmp_path, template=template)))
        keyed.engine.recorded.clear()
        said = {"messages": [{"role": "user", "content": "the same words"}], "session_id": f"s{shared}"}
        async with client_of(keyed, ALICE) as alice, client_of(keyed, BOB) as bob:
            await alice.post(CHAT, json=said)
            reply = (await bob.post(CHAT, json=said)).json()
            assert (reply["usage"]["prompt_tokens_details"]["cached_tokens"] > 0) == shared
            assert keyed.tokenizer.decode(keyed.engine.prompt_ids()).count("the same words") == 1
            salted = (await bob.post(CHAT, json=said | {"cache_salt": "mine", "session_id": "t"})).json()
            assert salted["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_no_salt_spells_another_keys_tenant(keyed: Parts) -> None:
    """Nor, without keys, one of the time when there were some."""
    async with client_of(keyed, ALICE) as alice:
        await alice.post(CHAT, json=HELLO | {"session_id": "s"})
    tenant = keyed.engine.last.request.tenant
    keyed.edge = Edge()
    async with client_of(keyed) as anybody:
        refused = await anybody.post(CHAT, json=HELLO | {"session_id": "s", "cache_salt": tenant})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "cache_salt")
        answered = await anybody.post(CHAT, json=HELLO | {"session_id": "s", "cache_salt": "alice"})
        assert answered.json()["usage"]["prompt_tokens_details"]["cached_tokens"] == 0


async def test_a_new_secret_keeps_the_conversations_and_an_old_one_ends_when_keys_are_read_again(
    keyed: Parts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, newer = tmp_path / "keys", "alice-newer-secret-1"
    path.write_text(f"alice:{ALICE}\n")
    ring = KeyRing(lambda: read_keys(path, OPEN))
    keyed.edge = Edge(keys=ring)
    async with client_of(keyed, ALICE) as old, client_of(keyed, newer) as new:
        await old.post(CHAT, json=HELLO | {"session_id": "s"})
        path.write_text(f"alice:{ALICE}\nalice:{newer}\n")
        assert (await new.get("/v1/models")).status_code == 401
        keyed.edge.reload()
        assert (await old.get("/v1/models")).status_code == 200
        reply = await new.post(CHAT, json=HELLO | {"session_id": "s"})
        assert reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
        path.write_text(f"alice:{newer}\n")
        keyed.edge.reload()
        assert (await old.get("/v1/models")).status_code == 401
        path.write_text(f"alice:{ALICE}\nbroken")
        keyed.edge.reload()
        assert (await new.get("/v1/models")).status_code == 200
        assert "line 2" in caplog.text


def test_every_key_is_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = KeyRing(lambda: keys_in(tmp_path))
    compared: list[int] = []
    compare = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", lambda a, b: compared.append(len(a)) or compare(a, b))
    for secret, name in ((ALICE, "alice"), (ROOT, "root"), ("", None), ("x" * 10_000, None)):
        holder = ring.holder(secret)
        assert (holder.name if holder else None) == name
    assert compared == [32] * 3 * 4


def test_a_line_says_what_its_key_may_do(tmp_path: Path) -> None:
    template = Caller("", rates=Rates(10, None), shares_prefixes=True)
    text = f"alice:{ALICE}\nbob:{BOB}   requests=60 tokens=100000\nroot:{ROOT} tokens=5 admin"
    assert [key.caller for key in keys_in(tmp_path, text, template)] == [
        Caller("alice", rates=Rates(10, None), shares_prefixes=True),
        Caller("bob", rates=Rates(60, 100000), shares_prefixes=True),
        Caller("root", admin=True, rates=Rates(10, 5), shares_prefixes=True),
    ]
    assert [key.caller for key in lone_key(ALICE, template)] == [
        Caller("default", admin=True, rates=Rates(10, None), shares_prefixes=True)
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "holds 0 keys"),
        ("# nothing\n\n", "holds 0 keys"),
        (f"alice:{ALICE}\n{ALICE}", "line 2"),
        ("alice:short", "line 1"),
        (f"al/ice:{ALICE}", "line 1"),
        (f"alice {ALICE}", "line 1"),
        (f"alice:{ALICE} Admin", "line 1"),
        (f"alice:{ALICE} tokens=0", "line 1"),
        (f"alice:{ALICE}\nbob:{ALICE}", "one secret twice"),
        (f"alice:{ALICE}\nalice:{BOB} admin", "different rights"),
        ("".join(f"k{n}:{ALICE}{n}\n" for n in range(1025)), "1025 keys"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_without_repeating_it(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(KeysUnusable, match=complaint) as refused:
        keys_in(tmp_path, text)
    assert ALICE not in str(refused.value)
    assert "short" not in str(refused.value)


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeysUnusable, match="cannot be read"):
        read_keys(tmp_path / "none", OPEN)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(KeysUnusable, match="UTF-8"):
        read_keys(tmp_path / "bytes", OPEN)
    with pytest.raises(KeysUnusable, match="16 ASCII"):
        lone_key("short", OPEN)


async def test_a_secret_is_in_no_log_error_or_metric(guarded: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore", "openai"):
        logging.getLogger(name).setLevel(logging.WARNING)
    client = guarded.http()
    shown = []
    for secret in (ALICE, ROOT, "unknown-secret-123456"):
        for body in (HELLO, HELLO | {"stream": True}, HELLO | {"temperature": 9}, [1]):
            shown.append((await client.post(CHAT, json=body, headers=bearer(secret))).text)
        shown.append((await client.get("/metrics", headers=bearer(secret))).text)
    everything = caplog.text + "".join(shown)
    assert "key alice" in caplog.text
    for secret in (ALICE, ROOT, "unknown-secret-123456"):
        assert secret not in everything
    assert ALICE not in repr(guarded.parts.edge.keys)


async def test_without_keys_everything_is_as_open_as_it_was(api: httpx.AsyncClient) -> None:
    for headers in ({}, bearer("anything at all")):
        assert (await api.post(CHAT, json=HELLO, headers=headers)).status_code == 200
        assert (await api.get("/admin/stats", headers=headers)).status_code == 200
