"""A conversation as a file: taken along with all its branches, and brought back; nothing in a file is believed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from chatserve.page.tree_wire import Times, TurnNotes
from chatserve.server.limits import ServerLimits
from chatserve.server.response_wire import InputDetails, ResponseUsage
from sessions.turns import Message
from tests.page.tree.tree_server import TreeServer, reply

EVIL = "<script>alert(1)</script>"
USAGE = ResponseUsage(input_tokens=3, input_tokens_details=InputDetails(1, 2), output_tokens=2, total_tokens=5)


async def branched(tree: TreeServer, title: str = "Tea") -> str:
    """The path of a conversation with a system message, two versions of its second turn, and the first one its leaf."""
    made = await tree.sessions.catalogue.create("", [Message("system", "Be brief.")], {"title": title})
    notes = TurnNotes(
        created_at=1,
        model="m",
        temperature=0.5,
        top_p=1.0,
        usage=USAGE,
        times=Times(ttft_ms=1.5, tokens_per_second=None),
        settings={"temperature": 0.5, "seed": 7},
    )
    async with tree.sessions.turn_at("", made.id, None, [Message("user", "q")], instructions="Be kind.") as opened:
        first = await opened.save([1], [2], "a", "length", detail=msgspec.json.encode(notes))
    await reply(tree.sessions, made.id, first.id, EVIL, "# left")
    await reply(tree.sessions, made.id, first.id, "last", "right")
    return f"/page/conversations/conv_{made.id}"


def without_names(shown: dict[str, Any]) -> dict[str, Any]:
    """A tree, its turns' ids by their places, and without what an import makes anew."""
    places = {turn["id"]: place for place, turn in enumerate(shown["turns"])} | {None: None}
    turns = [turn | {"id": places[turn["id"]], "parent": places[turn["parent"]]} for turn in shown["turns"]]
    return {"title": shown["title"], "leaf": places[shown["leaf"]], "turns": turns}


async def test_an_export_that_is_imported_again_is_the_same_tree(tree: TreeServer) -> None:
    where = await branched(tree)
    file = (await tree.get(f"{where}/export")).json()
    assert (file["format"], file["version"]) == ("chatserve.conversation", 1)
    made = (await tree.post("/page/import", file)).json()
    assert made["title"] == "Tea"
    assert f"/page/conversations/{made['id']}" != where
    again = f"/page/conversations/{made['id']}"
    before, after = [(await tree.get(each)).json() for each in (where, again)]
    assert without_names(after) == without_names(before)
    assert {turn["id"] for turn in before["turns"]}.isdisjoint(turn["id"] for turn in after["turns"])
    assert (await tree.get("/page/conversations")).json()["data"][0]["id"] == made["id"]
    second = (await tree.get(f"{again}/export")).json()
    assert without_names(second) == without_names(file)


async def test_an_imported_conversation_goes_on_through_the_api(tree: TreeServer) -> None:
    file = (await tree.get(f"{await branched(tree)}/export?format=json")).json()
    made = (await tree.post("/page/import", file)).json()["id"]
    items = (await tree.get(f"/v1/conversations/{made}/items?order=asc")).json()["data"]
    assert [item["content"][0]["text"] for item in items] == ["Be brief.", "q", "a", "last", "right"]
    shown = (await tree.get(f"/page/conversations/{made}")).json()["turns"]
    stored = (await tree.get(f"/v1/responses/{shown[1]['id']}")).json()
    assert (stored["model"], stored["usage"]["input_tokens"], stored["status"]) == ("m", 3, "incomplete")
    answered = await tree.post("/v1/responses", {"input": "next", "conversation": made})
    assert answered.status_code == 200
    prompt = tree.prompt()
    assert prompt == ("system\nBe brief.\nuser\nq\nassistant\na\nuser\nlast\nassistant\nright\nuser\nnext\nassistant\n")
    await tree.post("/v1/responses", {"input": "more", "conversation": made})
    assert tree.prompt().startswith(prompt)


async def test_a_markdown_export_is_what_was_said_on_the_way_to_the_leaf(tree: TreeServer) -> None:
    got = await tree.get(f"{await branched(tree)}/export?format=markdown")
    assert got.headers["content-type"] == "text/markdown; charset=utf-8"
    assert got.text == (
        "# Tea\n\n## System\n\nBe brief.\n\n## Instructions\n\nBe kind.\n\n## User\n\nq\n\n## Assistant\n\na\n\n"
        "## Instructions\n\n(none)\n\n## User\n\nlast\n\n## Assistant\n\nright\n"
    )


@pytest.mark.parametrize(
    ("title", "plain", "full"),
    [
        ("Tea", "Tea", "Tea"),
        ("Über Größe", "Uber Groe", "%C3%9Cber%20Gr%C3%B6%C3%9Fe"),
        ("天気", "conversation", "%E5%A4%A9%E6%B0%97"),
        ("../../etc/passwd", "etc passwd", "etc%20passwd"),
        ('a"; filename="b.html', "a ; filename= b.html", "a%20%3B%20filename%3D%20b.html"),
        ("C:\\x|<y>*?%", "C x y", "C%20x%20y"),
        (" .. ", "conversation", "conversation"),
        ("x" * 200, "x" * 80, "x" * 80),
    ],
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_file_is_downloaded_under_a_safe_name_and_never_shown(
    tree: TreeServer, title: str, plain: str, full: str
) -> None:
    """A37"""
    where = f"/page/conversations/conv_{await tree.told(EVIL, EVIL, title=title)}"
    for kind, ending in (("json", "json"), ("markdown", "md")):
        got = await tree.get(f"{where}/export?format={kind}")
        assert got.headers["content-disposition"] == (
            f"attachment; filename=\"{plain}.{ending}\"; filename*=UTF-8''{full}.{ending}"
        )
        assert got.headers["x-content-type-options"] == "nosniff"
        assert "html" not in got.headers["content-type"]
        assert got.text.count(EVIL) == 2


async def test_messages_become_turns_by_their_answers(tree: TreeServer) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {"role": "user", "content": [{"type": "text", "text": "two"}]},
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "last"},
    ]
    made = (await tree.post("/page/import", {"title": "Given", "messages": messages})).json()
    shown = (await tree.get(f"/page/conversations/{made['id']}")).json()
    said = [([message["text"] for message in turn["messages"]], turn["answer"]) for turn in shown["turns"]]
    assert said == [(["Be brief."], None), (["one", "two"], "a"), ([], "b"), (["last"], None)]
    assert shown["leaf"] == shown["turns"][-1]["id"]
    await tree.post("/v1/responses", {"input": "next", "conversation": made["id"]})
    assert tree.prompt().endswith("assistant\na\nassistant\nb\nuser\nlast\nuser\nnext\nassistant\n")


def export(**changes: Any) -> dict[str, Any]:
    turn = {"id": "x", "parent": None, "created_at": 1.0, "messages": [{"role": "user", "content": "q"}], "answer": "a"}
    turn |= changes.pop("turn", {})
    whole = {"format": "chatserve.conversation", "version": 1, "title": None, "created_at": 1, "leaf": "x"}
    return {**whole, "turns": [turn], **changes}


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({}, "turns", "neither turns"),
        ({"messages": []}, "messages", "at least one message"),
        ({"messages": [{"role": "critic", "content": "x"}]}, "messages[0].role", "'critic'"),
        ({"title": 3, "messages": [{"role": "user", "content": "x"}]}, "title", "3"),
        ({"title": "x" * 201, "messages": [{"role": "user", "content": "x"}]}, "title", "200"),
        (export(format="other"), "format", "'other'"),
        (export(version=2), "version", "2"),
        (export(leaf="y"), "leaf", "'y'"),
        (export(turns=[{"id": "x"}]), "turns[0]", "parent"),
        (export(turn={"parent": "x"}), "turns[0].parent", "'x'"),
        (export(turn={"created_at": -1}), "turns[0].created_at", "-1"),
        (export(turn={"created_at": 1e300}), "turns[0].created_at", "1e+300"),
        (export(turn={"status": "running"}), "turns[0].status", "running"),
        (export(turn={"messages": [{"role": "removed", "content": "1"}]}), "turns[0].messages[0].role", "removed"),
        (export(turn={"messages": [{"role": "é" * 999, "content": "1"}]}), "turns[0].messages[0].role", "xe9"),
        (export(turn={"answer": 3}), "turns[0].answer", "int"),
        (export(turn={"usage": {}}), "turns[0].usage", "input_tokens"),
        (export(turn={"settings": {"x": []}}), "turns[0].settings[...]", "array"),
        (export(turns=2 * export()["turns"]), "turns[1].id", "'x'"),
        (export(turns=[{"id": str(n), "parent": None, "created_at": 1} for n in range(21)]), "turns", "21 turns"),
        (export(turn={"messages": [{"role": "user", "content": ""}] * 21}), "turns", "21 messages"),
        (export(turn={"answer": "x" * 1001}), "The conversation", "1000"),
        (export(turn={"answer": "\ud800"}), "turns", "surrogate"),
    ],
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("limits", [ServerLimits(messages=20, text=1000)], ids=["small"])
async def test_a_file_that_is_not_one_is_refused_by_what_is_wrong_and_leaves_nothing(
    tree: TreeServer, body: dict[str, Any], param: str, message: str
) -> None:
    headers = {"content-type": "application/json"}
    refused = await tree.client.post("/page/import", content=json.dumps(body), headers=headers)
    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (400, param)
    assert message in error["message"]
    assert len(error["message"]) < 400
    assert (await tree.sessions.catalogue.recent("")).values == ()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1" + "0" * 40, "-1e999"])
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize("where", ["settings", "times", "usage", "max"])
async def test_numbers_that_nobody_measures_hurt_nobody(tree: TreeServer, where: str, number: str) -> None:
    """Refused or kept, whatever is shown of them can be read."""
    values = {
        "settings": {"settings": {"temperature": 9}},
        "times": {"times": {"ttft_ms": 9, "tokens_per_second": 9}},
        "usage": {"usage": msgspec.to_builtins(USAGE) | {"input_tokens": 9}},
        "max": {"settings": {"max_output_tokens": 9}},
    }
    body = json.dumps(export(turn=values[where])).replace("9", number)
    brought = await tree.client.post("/page/import", content=body, headers={"content-type": "application/json"})
    assert brought.status_code in (200, 400)
    if brought.status_code == 200:
        shown = (await tree.get(f"/page/conversations/{brought.json()['id']}")).json()
        assert shown["turns"][0]["answer"] == "a"
        assert (await tree.get(f"/v1/responses/{shown['turns'][0]['id']}")).status_code in (200, 404)


async def test_an_empty_conversation_is_taken_along_too(tree: TreeServer) -> None:
    made = (await tree.post("/page/conversations", {})).json()["id"]
    file = (await tree.get(f"/page/conversations/{made}/export")).json()
    for each in (file, file | {"turns": [], "leaf": None}):
        again = (await tree.post("/page/import", each)).json()
        assert again["title"] is None
        assert len((await tree.get(f"/page/conversations/{again['id']}")).json()["turns"]) == 1
