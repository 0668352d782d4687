"""A turn belongs to the server: it is made and saved whoever looks, and whoever looks sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from chatserve.engine.messages import Generate
from chatserve.server.edge import Edge
from chatserve.server.keys import KeyRing
from chatserve.server.live import LiveResponses
from chatserve.server.meters import Meters
from chatserve.server.serve import DrainLimits
from chatserve.server.visit import Caller, Rates
from tests.page.conftest import ANSWER
from tests.page.page_server import PageParts, open_page_parts
from tests.page.tab import begin, following, say, tree
from tests.server.running_server import MODEL, Running, serving
from tests.server.scripted import ScriptedEngine
from tests.server.test_disconnects import until
from tests.server.test_keys import ALICE, BOB, bearer, keys_in


def prompt(server: Running) -> str:
    return server.parts.tokenizer.decode(server.engine.prompt_ids())


@asynccontextmanager
async def elsewhere(server: Running, folder: Path) -> AsyncIterator[Running]:
    """Another API process over the same store, which can tell the first one to cancel."""
    other = await open_page_parts(folder, server.parts.tokenizer, server.engine)
    assert isinstance(server.parts, PageParts)
    other.live = LiveResponses(server.parts.live.cancel)
    async with serving(other) as running:
        yield running
    await other.store.close()


def halting(engine: ScriptedEngine, answer: bytes, after: int) -> None:
    """Have the engine say so many bytes of an answer and then no more, until it is stopped."""

    def script(_request: Generate) -> Iterator[int]:
        for place, token in enumerate(answer):
            if place == after:
                engine.pace = 3600
            yield token

    engine.script = script  # type: ignore[assignment]


@pytest.fixture
def halted(engine: ScriptedEngine, tokenizer: Any) -> ScriptedEngine:
    """Says "Hello" and then nothing."""
    answer = tokenizer.encode(ANSWER)
    halting(engine, answer, 5)
    return engine


async def test_a_turn_is_told_from_its_beginning_to_its_end(server: Running) -> None:
    http = server.http()
    name = await begin(http, title="T")
    async with following(http, name) as tab:
        taken = await say(http, name, "*Hi*")
        assert taken.status_code == 202
        assert taken.json() == {"id": taken.json()["id"], "conversation": name}
        end = await tab.until("end")
        assert tab.kinds() == ["state", "turn", "text", "end"]
    assert tab.events[0] == {"type": "state", "running": None, "elsewhere": False}
    begun, turn = tab.last("turn")["turn"], end["turn"]
    assert begun["id"] == turn["id"] == taken.json()["id"]
    assert begun["messages"] == turn["messages"]
    assert turn["messages"] == [{"role": "user", "text": "*Hi*", "html": "<p><em>Hi</em></p>\n"}]
    assert (turn["status"], turn["answer"]) == ("completed", ANSWER)
    assert turn["blocks"] == ["<p>Hello <em>there</em>.</p>\n", "<p>friend</p>\n"]
    now = await tree(http, name)
    assert (now["leaf"], now["running"]) == (turn["id"], None)
    assert now["turns"][-1] == turn


async def test_what_grew_on_the_way_is_what_is_there_at_the_end(server: Running) -> None:
    text = "# Title\n\n" + "A *paragraph* of words. " * 20 + "\n\n```python\nx = 1\n```\n\n- a\n- b\n\nEnd."
    server.engine.script = lambda _request: server.parts.tokenizer.encode(text)
    server.engine.pace = 0.001
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        await say(http, name, "Hi")
        end = await tab.until("end")
    shown = "".join(tab.blocks)
    assert "".join(end["turn"]["blocks"]).startswith(shown[: len(shown) // 2])
    assert len([event for event in tab.events if event["type"] == "text"]) < len(text) / 10
    assert tab.last("text")["tokens"] <= len(text) + 1


async def test_thoughts_are_told_apart(server: Running) -> None:
    server.engine.script = lambda _request: server.parts.tokenizer.encode("<think>\nhm\n</think>\n\nyes")
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        await say(http, name, "Hi")
        turn = (await tab.until("end"))["turn"]
    assert (turn["thinking_html"], turn["blocks"]) == ("<p>hm</p>\n", ["<p>yes</p>\n"])


async def test_how_it_was_asked_and_how_it_came_is_kept(server: Running) -> None:
    server.engine.pace = 0.001
    http = server.http()
    name = await begin(http)
    settings = {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 100, "seed": 7, "top_k": 40}
    await say(http, name, "one", instructions="Be kind.", settings=settings | {"min_p": None})
    await server.parts.running.idle()
    params = server.engine.last.request.params
    assert (params.temperature, params.top_p, params.seed, params.top_k, params.max_tokens) == (0.5, 0.9, 7, 40, 100)
    assert prompt(server) == "system\nBe kind.\nuser\none\nassistant\n"
    turn = (await tree(http, name))["turns"][-1]
    assert (turn["settings"], turn["instructions"]) == (settings, "Be kind.")
    assert turn["usage"]["output_tokens"] == len(ANSWER) + 1
    assert turn["usage"]["input_tokens_details"]["chatserve"]["stopped"]["why"] == "nothing_recorded"
    assert turn["times"]["ttft_ms"] > 0
    assert turn["times"]["tokens_per_second"] > 0


async def test_it_is_a_response_like_any_other(server: Running) -> None:
    http, client = server.http(), server.openai()
    name = await begin(http)
    made = (await say(http, name, "one", settings={"max_output_tokens": 5})).json()["id"]
    await server.parts.running.idle()
    reply = await client.responses.retrieve(made)
    assert (reply.status, reply.output_text, reply.model) == ("incomplete", ANSWER[:5], MODEL)
    assert reply.conversation is not None
    assert (reply.conversation.id, reply.max_output_tokens) == (name, 5)
    assert (await client.responses.create(model=MODEL, input="two", conversation=name)).output_text == ANSWER
    assert prompt(server) == f"user\none\nassistant\n{ANSWER[:5]}\nuser\ntwo\nassistant\n"


async def test_a_page_that_goes_away_loses_nothing(halted: ScriptedEngine, server: Running) -> None:
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        made = (await say(http, name, "Hi")).json()["id"]
        await tab.until("text")
    assert not halted.last.stopped
    async with following(http, name) as tab:
        await tab.until("text")
        await until(lambda: tab.blocks == ["<p>Hello</p>\n"])
        assert tab.kinds() == ["state", "turn", "text"]
        assert tab.events[0] == {"type": "state", "running": made, "elsewhere": False}
        assert tab.events[1]["turn"]["id"] == made
        assert tab.events[2]["from"] == 0
        assert (await tree(http, name))["running"] == made


async def test_it_is_made_though_nobody_ever_looks(server: Running) -> None:
    http = server.http()
    name = await begin(http)
    await say(http, name, "Hi")
    await server.parts.running.idle()
    assert (await tree(http, name))["turns"][-1]["answer"] == ANSWER


async def test_two_tabs_see_the_same(server: Running) -> None:
    http = server.http()
    name = await begin(http)
    async with following(http, name) as one, following(http, name) as two:
        await say(http, name, "Hi")
        assert await one.until("end") == await two.until("end")
        assert one.kinds() == two.kinds() == ["state", "turn", "text", "end"]


async def test_regenerated_and_edited_turns_are_branches_and_the_newest_is_the_leaf(server: Running) -> None:
    http = server.http()
    name = await begin(http)
    ids = []
    for text, parent in (("one", None), ("two", 0), ("two", 0), ("2", 0), ("three", 1)):
        ids.append((await say(http, name, text, parent=None if parent is None else ids[parent])).json()["id"])
        await server.parts.running.idle()
    now = await tree(http, name)
    parents = {turn["id"]: turn["parent"] for turn in now["turns"]}
    assert [parents[made] for made in ids[1:]] == [ids[0], ids[0], ids[0], ids[1]]
    assert now["leaf"] == ids[-1]
    assert prompt(server).count("user\n") == 3


async def test_a_second_turn_is_refused_while_one_runs(halted: ScriptedEngine, server: Running) -> None:
    http = server.http()
    name = await begin(http)
    made = (await say(http, name, "Hi")).json()["id"]
    refused = await say(http, name, "again")
    assert refused.status_code == 409
    error = refused.json()["error"]
    assert (error["code"], error["running"], error["type"]) == ("turn_running", made, "invalid_request_error")
    assert len(halted.streams) == 1


async def test_stop_stops_and_keeps_what_was_said(halted: ScriptedEngine, server: Running) -> None:
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        made = (await say(http, name, "Hi")).json()["id"]
        await until(lambda: halted.last.made >= 5)
        await tab.until("text")
        stopped = await http.post(f"/page/turns/{made}/stop", json={})
        assert stopped.json() == {"status": "cancelled"}
        assert halted.last.stopped
        turn = (await tab.until("end"))["turn"]
    assert (turn["status"], turn["answer"]) == ("cancelled", "Hello")
    assert (await tree(http, name))["turns"][-1] == turn
    assert (await http.post(f"/page/turns/{made}/stop", json={})).json() == {"status": "cancelled"}
    halted.pace = 0
    assert (await say(http, name, "go on", parent=made)).status_code == 202


async def test_stop_before_the_first_word_leaves_the_question(server: Running) -> None:
    server.engine.prefill = 60
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        made = (await say(http, name, "Hi")).json()["id"]
        assert (await http.post(f"/page/turns/{made}/stop", json={})).json() == {"status": "cancelled"}
        turn = (await tab.until("end"))["turn"]
    assert (turn["status"], turn["answer"], turn["messages"][0]["text"]) == ("cancelled", "", "Hi")
    assert turn["times"] == {"ttft_ms": None, "tokens_per_second": None}


async def test_what_has_ended_stays_as_it_was(server: Running) -> None:
    http = server.http()
    name = await begin(http)
    made = (await say(http, name, "Hi")).json()["id"]
    await server.parts.running.idle()
    assert (await http.post(f"/page/turns/{made}/stop", json={})).json() == {"status": "completed"}
    for unknown in ("resp_nothing", "nothing"):
        assert (await http.post(f"/page/turns/{unknown}/stop", json={})).status_code == 404


async def test_an_engine_that_dies_is_told_and_what_came_is_kept(halted: ScriptedEngine, server: Running) -> None:
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        made = (await say(http, name, "Hi")).json()["id"]
        await until(lambda: halted.last.made >= 5)
        await tab.until("text")
        halted.die()
        failed = await tab.until("error")
    assert (failed["id"], failed["error"]["code"]) == (made, "engine_died")
    now = await tree(http, name)
    assert now["running"] is None
    assert (now["turns"][-1]["status"], now["turns"][-1]["answer"]) == ("failed", "Hello")
    refused = await say(http, name, "again")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready")


async def test_what_the_engine_refuses_is_told(server: Running) -> None:
    server.engine.refusal = "too long"
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        await say(http, name, "Hi")
        assert (await tab.until("error"))["error"]["code"] == "context_length_exceeded"


async def test_a_deleted_conversations_turn_ends_with_it(halted: ScriptedEngine, server: Running) -> None:
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        await say(http, name, "Hi")
        await tab.until("text")
        await http.delete(f"/page/conversations/{name}")
        await tab.until_ended()
    assert tab.kinds()[-1] == "deleted"
    await until(lambda: halted.last.stopped and not server.parts.running)
    assert "error" not in tab.kinds()
    assert (await http.get(f"/page/conversations/{name}/events")).status_code == 404


async def test_a_deletion_and_a_new_title_are_told_to_tabs_of_other_processes(server: Running, tmp_path: Path) -> None:
    async with elsewhere(server, tmp_path) as other:
        http, far = server.http(), other.http()
        name = await begin(http)
        async with following(far, name) as tab:
            await http.post(f"/page/conversations/{name}", json={"title": "New"})
            assert (await tab.until("renamed"))["title"] == "New"
            await http.delete(f"/page/conversations/{name}")
            await tab.until_ended()
            assert tab.kinds() == ["state", "renamed", "deleted"]


async def test_a_turn_of_an_apis_client_is_told_as_a_change(server: Running) -> None:
    http = server.http()
    name = await begin(http)
    async with following(http, name) as tab:
        await server.openai().responses.create(model=MODEL, input="Hi", conversation=name)
        await tab.until("changed")
        await say(http, name, "mine", parent=(await tree(http, name))["leaf"])
        await tab.until("end")
    assert tab.kinds().count("changed") == 1


async def test_what_runs_in_another_process_is_seen_and_stopped(
    halted: ScriptedEngine, server: Running, tmp_path: Path
) -> None:
    async with elsewhere(server, tmp_path) as other:
        http, far = server.http(), other.http()
        name = await begin(http)
        made = (await say(http, name, "Hi")).json()["id"]
        await until(lambda: halted.last.made >= 5)
        async with following(far, name) as tab:
            assert tab.events[0]["elsewhere"] is True
            refused = await say(far, name, "again")
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "turn_running")
            assert (await far.post(f"/page/turns/{made}/stop", json={})).json() == {"status": "cancelled"}
            await tab.until("changed")
            assert tab.last("state") == {"type": "state", "running": None, "elsewhere": False}
        assert (await tree(far, name))["turns"][-1]["answer"] == "Hello"


async def test_a_server_that_leaves_ends_the_turn_saves_it_and_says_so(
    halted: ScriptedEngine, parts: PageParts
) -> None:
    parts.drain = DrainLimits(running=0.2, ending=2, engine=1)
    async with serving(parts) as server:
        http = server.http()
        name = await begin(http)
        async with following(http, name) as tab:
            made = (await say(http, name, "Hi")).json()["id"]
            await until(lambda: halted.last.made >= 5)
            await tab.until("text")
            server.signals.note()
            failed = await tab.until("error")
            await tab.until_ended()
        assert (failed["id"], failed["error"]["code"]) == (made, "draining")
        await asyncio.wait_for(server.task, 5)
    chain = await parts.store.chain(made.removeprefix("resp_"))
    assert (chain[-1].answer, chain[-1].status) == ("Hello", "cancelled")


async def test_a_server_without_turns_leaves_at_once_though_pages_are_open(parts: PageParts) -> None:
    async with serving(parts) as server:
        http = server.http()
        async with following(http, await begin(http)) as tab:
            server.signals.note()
            await tab.until_ended()
        await asyncio.wait_for(server.task, 5)


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


async def test_nothing_is_kept_of_conversations_that_nobody_looks_at(server: Running) -> None:
    http = server.http()
    for number in range(3):
        name = await begin(http)
        async with following(http, name) as tab:
            await say(http, name, "Hi", parent=None)
            await tab.until("end")
        if number:
            await say(http, name, "Hi", parent="resp_nothing")
    await until(lambda: not server.parts.running and not len(server.parts.relay.rooms))
