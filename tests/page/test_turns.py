"""A turn belongs to the server: it is made and saved whoever looks, and whoever looks sees it."""

from __future__ import annotations

from tests.page.conftest import ANSWER
from tests.page.tab import begin, following, say, tree
from tests.server.running_server import MODEL, Running
from tests.server.scripted import ScriptedEngine
from tests.server.test_disconnects import until


def prompt(server: Running) -> str:
    return server.parts.tokenizer.decode(server.engine.prompt_ids())


async def test_a_turn_is_told_from_its_beginning_to_its_end(server: Running) -> None:
    http = server.http()
    name = await begin(http, title="T")
    async with following(http, name) as tab:
        taken = await say(http, name, "*Hi*")
        assert taken.status_code == 202
        assert taken.json() == {"id": taken.json()["id"], "conversation": name}
        end = await tab.until("end")
        assert tab.kinds() == ["state", "turn", "end"]
    assert tab.events[0] == {"type": "state", "running": None, "elsewhere": False}
    begun, turn = tab.last("turn")["turn"], end["turn"]
    assert begun["id"] == turn["id"] == taken.json()["id"]
    assert begun["messages"] == turn["messages"]
    assert turn["messages"] == [{"role": "user", "text": "*Hi*", "html": None}]
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
        assert tab.kinds() == ["state", "turn"]
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
        assert one.kinds() == two.kinds() == ["state", "turn", "end"]


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
