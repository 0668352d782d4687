"""The memory as the page sees it: true, live, cheap to watch, and silent about others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from chatserve.engine.picture import PictureNode
from chatserve.page import memory_watch
from chatserve.page.memory import memory_view_routes
from chatserve.page.memory_look import MemoryLook, Viewer
from chatserve.page.memory_watch import MemoryWatches
from chatserve.page.titles import GOOD_FOR, Titles
from chatserve.server.app import create_app
from chatserve.server.edge import OPEN, Edge
from chatserve.server.keys import KeyRing
from chatserve.server.limits import ServerLimits
from chatserve.server.running import RunningTurns
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from sessions.catalogue import Catalogue
from sessions.manager import SessionManager
from sessions.sqlite import SqliteStore
from sessions.store import StoreUnavailable
from sessions.turns import Conversation
from tests.server.running_server import MODEL, Parts, Running, serving
from tests.server.scripted import ScriptedEngine
from tests.server.test_disconnects import until
from tests.server.test_keys import ALICE, BOB, bearer, keys_in
from tests.server.wire_client import WireClient

Json = dict[str, Any]


@dataclass
class MemoryParts(Parts):
    """A server whose page has nothing but the memory."""

    def routes(self) -> Starlette:
        sessions = SessionManager(self.store)
        routes = memory_view_routes(self.engine, sessions.catalogue, self.running, self.limits)
        prompt = ChatPrompt(self.tokenizer)
        return create_app(
            self.engine,
            self.tokenizer,
            prompt,
            sessions,
            self.running,
            model_name=MODEL,
            limits=self.limits,
            extra=lambda _opener: routes,
        )


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, "EVERY", 0.02)
    monkeypatch.setattr(memory_watch, "APART", 0.001)
    monkeypatch.setattr(memory_watch, "REST", 0)


@pytest.fixture
async def parts(tmp_path: Path, tokenizer: Tokenizer, engine: ScriptedEngine) -> AsyncIterator[MemoryParts]:
    store = await SqliteStore.open(tmp_path / "sessions.db")
    yield MemoryParts(engine, tokenizer, ChatPrompt(tokenizer), store)
    await store.close()


@pytest.fixture
async def server(parts: MemoryParts) -> AsyncIterator[Running]:
    async with serving(parts) as running:
        yield running


def node(number: int, label: str = "", *, parent: int | None = None, idle: float = 1.0, **more: Any) -> PictureNode:
    fields = {"start": 0, "end": 9, "chunks": 2, "shared": False, "in_use": False, "warm": False, "next": None}
    return PictureNode(id=number, parent=parent, idle=idle, label=label, **fields | more)


async def talk(http: httpx.AsyncClient, title: str | None = None, **query: str) -> str:
    """A conversation of the caller's; its id."""
    metadata = {} if title is None else {"title": title}
    made = await http.post("/v1/conversations", json={"metadata": metadata} | query)
    return str(made.raise_for_status().json()["id"])


def label_of(conversation: str) -> str:
    return conversation.removeprefix("conv_")


@asynccontextmanager
async def watching(http: httpx.AsyncClient, query: str = "") -> AsyncIterator[Callable[[], Any]]:
    """Gives a function that waits for the next event."""
    async with http.stream("GET", f"/page/memory/events{query}") as reply:
        assert (reply.status_code, reply.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
        lines = reply.aiter_lines()

        async def upcoming() -> Json:
            async with asyncio.timeout(5):
                async for line in lines:
                    if line.startswith("data: "):
                        return json.loads(line.removeprefix("data: "))
            raise AssertionError("the stream ended")

        yield upcoming


async def test_a_turn_is_recorded_under_the_id_of_its_conversation(server: Running) -> None:
    http = server.http()
    name = await talk(http)
    await http.post("/v1/responses", json={"model": MODEL, "input": "one", "conversation": name})
    assert server.engine.last.request.label == label_of(name)
    await http.post("/v1/completions", json={"model": MODEL, "prompt": "one"})
    assert server.engine.last.request.label == ""


async def test_the_callers_nodes_are_shown_with_the_names_of_their_conversations(server: Running) -> None:
    http = server.http()
    name, untitled = await talk(http, "Of cats"), await talk(http)
    server.engine.nodes[""] = (
        node(1, shared=True),
        node(5, label_of(name), parent=1, start=9, end=30, next=1, warm=True, idle=2.345),
        node(7, label_of(untitled), parent=1, chunks=0, in_use=True),
    )
    view = (await http.get("/page/memory")).raise_for_status().json()
    stem, titled, other = view["nodes"]
    assert (stem["conversation"], stem["title"], stem["shared"], stem["parent"]) == (None, None, True, None)
    assert titled == {
        "id": 5, "parent": 1, "start": 9, "end": 30, "chunks": 2, "bytes": 128, "shared": False, "tier": "device",
        "in_use": False, "warm": True, "idle_s": 2.3, "next": 1, "conversation": name, "title": "Of cats",
    }  # fmt: skip
    assert (other["conversation"], other["title"], other["in_use"], other["bytes"]) == (untitled, None, True, 0)
    assert (view["type"], view["more"], view["others"]) == ("memory", 0, {"nodes": 0, "bytes": 0})
    assert view["device"] == {
        "limit_bytes": 100, "used_bytes": 25, "shared_bytes": 0, "free_bytes": 0, "physical_bytes": 0,
        "mapped_bytes": 0, "given_back_bytes": 0, "chunk_bytes": 64, "chunk_tokens": 0, "running": 0, "waiting": 0,
        "device_total_bytes": None, "device_free_bytes": None,
    }  # fmt: skip


async def test_at_most_so_many_nodes_are_told_and_how_many_more_there_are(server: Running) -> None:
    server.engine.nodes[""] = tuple(map(node, range(600)))
    view = (await server.http().get("/page/memory")).json()
    assert (len(view["nodes"]), view["more"]) == (500, 100)


async def test_a_watcher_is_told_at_once_and_then_of_changes_only(server: Running) -> None:
    http = server.http()
    server.engine.nodes[""] = (node(1),)
    async with watching(http) as upcoming:
        assert [each["id"] for each in (await upcoming())["nodes"]] == [1]
        server.engine.nodes[""] = (node(1, idle=60.0),)  # time passes, which is no news
        asked = len(server.engine.pictured)
        await until(lambda: len(server.engine.pictured) > asked + 3)
        server.engine.nodes[""] = (node(1, idle=61.0), node(2))
        assert [(each["id"], each["idle_s"]) for each in (await upcoming())["nodes"]] == [(1, 61.0), (2, 1.0)]


async def test_all_who_watch_cost_one_look_and_none_when_they_have_gone(server: Running) -> None:
    async with watching(server.http()) as one, watching(server.http()) as two:
        await one()
        await two()
        asked = len(server.engine.pictured)
        await asyncio.sleep(0.2)
        assert len(server.engine.pictured) - asked <= 11, "two looks where one is enough"
    await quiet(server.engine)


async def quiet(engine: ScriptedEngine) -> None:
    """Wait until nobody looks any more."""
    asked = -1
    async with asyncio.timeout(5):
        while asked != len(engine.pictured):
            asked = len(engine.pictured)
            await asyncio.sleep(0.2)


async def test_whoever_watches_much_is_told_more_seldom(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each salt is a tree of its own, and there may be as many as one likes."""
    monkeypatch.setattr(memory_watch, "APART", 0.05)
    now = asyncio.get_running_loop().time
    began = now()
    async with AsyncExitStack() as streams:
        for salt in range(8):
            upcoming = await streams.enter_async_context(watching(server.http(), f"?cache_salt={salt}"))
            await upcoming()
        await asyncio.sleep(0.3)
        assert len(server.engine.pictured) <= (now() - began) / 0.05 + 1
        assert len({tenant for tenant, _ in server.engine.pictured}) == 8


async def test_an_engine_that_takes_long_to_look_is_looked_at_more_seldom(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_watch, "REST", 4)
    look, now = server.engine.picture, asyncio.get_running_loop().time

    async def slow(*asked: Any) -> Any:
        await asyncio.sleep(0.05)
        return await look(*asked)

    monkeypatch.setattr(server.engine, "picture", slow)
    began = now()
    async with watching(server.http()) as one, watching(server.http(), "?cache_salt=other") as two:
        await one()
        await two()
        await asyncio.sleep(0.5)
        assert len(server.engine.pictured) <= (now() - began) / 0.25 + 1


async def test_nobody_who_watches_keeps_an_engine_from_looking_at_nothing(server: Running) -> None:
    await server.http().get("/page/memory")
    assert len(server.engine.pictured) == 1
    await asyncio.sleep(0.1)
    assert len(server.engine.pictured) == 1


async def test_an_engine_that_goes_is_told_and_so_is_its_return(server: Running) -> None:
    http = server.http()
    async with watching(http) as upcoming:
        assert (await upcoming())["type"] == "memory"
        server.engine.alive = False
        gone = await upcoming()
        assert (gone["type"], gone["error"]["code"]) == ("error", "not_ready")
        assert (await http.get("/page/memory")).status_code == 503
        server.engine.alive = True
        assert (await upcoming())["type"] == "memory"


async def test_an_engine_that_is_silent_is_told(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chatserve.page.memory_look.ENGINE_ANSWERS_WITHIN", 0.05)
    silent = asyncio.Event()

    async def never(*_: object) -> Any:
        await silent.wait()

    monkeypatch.setattr(server.engine, "picture", never)
    async with watching(server.http()) as upcoming:
        assert (await upcoming())["error"]["code"] == "engine_silent"


async def test_a_reader_that_takes_nothing_is_let_go_and_delays_nobody(parts: MemoryParts) -> None:
    parts.limits = ServerLimits(send_seconds=0.3)
    parts.send_buffer = 4096
    parts.engine.nodes[""] = tuple(node(number) for number in range(500))
    async with serving(parts) as server:
        stalled = await WireClient.connect(server.port, receive_buffer=4096)
        await stalled.send(b"GET /page/memory/events HTTP/1.1\r\nHost: test\r\n\r\n")
        async with watching(server.http()) as upcoming:
            await upcoming()
            for number in range(500, 505):
                parts.engine.nodes[""] = (*parts.engine.nodes[""][1:], node(number))
                assert (await upcoming())["nodes"][-1]["id"] == number
        await quiet(parts.engine)
        stalled.close()


async def test_a_draining_server_ends_its_streams(server: Running) -> None:
    async with server.http().stream("GET", "/page/memory/events") as reply:
        chunks = reply.aiter_bytes()
        await anext(chunks)
        server.signals.note()
        async with asyncio.timeout(2):
            assert [chunk async for chunk in chunks] == []
    await server.task


async def test_pings_are_comments(parts: MemoryParts) -> None:
    parts.limits = ServerLimits(ping_seconds=0.05)
    async with serving(parts) as server, server.http().stream("GET", "/page/memory/events") as reply:
        lines = reply.aiter_lines()
        async with asyncio.timeout(5):
            assert ": ping" in [await anext(lines) for _ in range(5)]


async def test_the_conversation_that_is_open_is_looked_for_and_no_other(server: Running) -> None:
    http = server.http()
    name, foreign = await talk(http), await talk(http, cache_salt="other")
    for asked in (name, foreign, "conv_none", "nonsense"):
        await http.get("/page/memory", params={"conversation": asked})
    assert [focus for _, focus in server.engine.pictured] == [{label_of(name)}, set(), set(), set()]
    async with watching(http, f"?conversation={name}") as one, watching(http) as two:
        await one()
        await two()
        await until(lambda: server.engine.pictured[-1] == ("", {label_of(name)}))


async def test_the_salt_of_a_caller_says_whose_memory_it_is(server: Running) -> None:
    http = server.http()
    server.engine.nodes = {"": (node(1),), "salt": (node(2), node(3))}
    view = (await http.get("/page/memory?cache_salt=salt")).json()
    assert ([each["id"] for each in view["nodes"]], view["others"]) == ([2, 3], {"nodes": 1, "bytes": 64})
    assert (await http.get("/page/memory", params={"cache_salt": "a\x1fb"})).status_code == 400


@pytest.fixture(params=["own prefixes", "shared prefixes"])
def guarded(parts: MemoryParts, tmp_path: Path, request: pytest.FixtureRequest) -> MemoryParts:
    template = replace(OPEN, shares_prefixes=request.param == "shared prefixes")
    parts.edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path, template=template)))
    return parts


async def test_nobody_is_told_whose_another_callers_nodes_are(guarded: MemoryParts) -> None:
    """Where callers share prefixes, they see one tree; but not each other's conversations in it."""
    async with serving(guarded) as server:
        alice, bob = (httpx.AsyncClient(base_url=server.url, headers=bearer(key)) for key in (ALICE, BOB))
        async with alice, bob:
            name = await talk(alice, "a secret")
            tree = (node(1, label_of(name)),)
            server.engine.nodes = {"": tree, "alice\x1f": tree}
            query = {"conversation": name}
            hers = (await alice.get("/page/memory", params=query)).json()
            his = await bob.get("/page/memory", params=query)
            assert hers["nodes"][0]["title"] == "a secret"
            assert name not in his.text
            assert "secret" not in his.text
            assert server.engine.pictured[-1][1] == set()
            assert (await server.http().get("/page/memory")).status_code == 401
            async with watching(alice) as hers_live, watching(bob) as his_live:
                assert (await hers_live())["nodes"][0]["conversation"] == name
                assert name not in json.dumps(await his_live())


class Shelf(Catalogue):
    """Counts what is read; away: it does not answer."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store)
        self.read: list[str] = []
        self.away = False

    async def conversation(self, tenant: str, conversation: str) -> Conversation:
        self.read.append(conversation)
        if self.away:
            raise StoreUnavailable("away")
        return await super().conversation(tenant, conversation)


async def test_titles_are_read_a_few_at_a_time_and_again_when_they_may_have_changed(parts: MemoryParts) -> None:
    shelf = Shelf(parts.store)
    now = 0.0
    titles = Titles(shelf, "me", at_once=2, clock=lambda: now)
    names = [(await shelf.create("me", metadata={"title": str(number)})).id for number in range(3)]
    assert await titles.of(names) == {names[0]: "0", names[1]: "1"}
    assert await titles.of(names) == dict(zip(names, "012", strict=True))
    shelf.read.clear()
    await shelf.update("me", names[2], {"title": "new"})
    shelf.read.clear()
    now = GOOD_FOR - 1
    assert (await titles.of(names))[names[2]] == "2"
    assert shelf.read == []
    now = GOOD_FOR + 1
    await titles.of(names)
    shelf.away = True
    assert (await titles.of(names))[names[2]] == "2"
    shelf.away = False
    assert (await titles.of(names))[names[2]] == "new"


async def test_a_slow_watcher_is_told_the_newest_only(parts: MemoryParts) -> None:
    engine, running = parts.engine, RunningTurns()
    catalogue = SessionManager(parts.store).catalogue

    def begin(viewer: Viewer) -> MemoryLook:
        return MemoryLook(engine, Titles(catalogue, viewer.conversations), viewer.prefixes)

    watches = MemoryWatches(begin, running)
    async with aclosing(watches.events(Viewer("", ""))) as slow:
        await anext(slow)
        for number in range(1, 6):
            engine.nodes[""] = (node(number),)
            asked = len(engine.pictured)
            await until(lambda asked=asked: len(engine.pictured) > asked + 1)
        assert json.loads((await anext(slow)).removeprefix(b"data: "))["nodes"][0]["id"] == 5
        running.close()
        async with asyncio.timeout(5):
            assert [told async for told in slow] == []
    assert len(watches) == 0
