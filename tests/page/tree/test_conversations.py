"""The page's conversations, over a real SQLite file and a real Redis server: listed, searched, named, read, deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from chatserve.page.tree_wire import Times, TurnNotes
from chatserve.server.edge import OPEN, Edge
from chatserve.server.keys import KeyRing
from chatserve.server.limits import ServerLimits
from chatserve.text.tokenizer import Tokenizer
from sessions.manager import SessionManager
from sessions.places import open_store
from sessions.turns import Message
from tests.page.tree.tree_server import TreeServer, reply, tree_server
from tests.server.scripted import ScriptedEngine
from tests.server.test_keys import ALICE, BOB, bearer, keys_in

EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>"


async def test_a_conversation_is_made_named_and_deleted_and_whoever_shows_it_is_told(tree: TreeServer) -> None:
    made = (await tree.post("/page/conversations", {"title": "  Tea\n and\x00 milk "})).json()
    assert (made["title"], made["running"]) == ("Tea and milk", False)
    assert made["id"].startswith("conv_")
    assert made["created_at"] == made["used_at"]
    where = f"/page/conversations/{made['id']}"
    renamed = (await tree.post(where, {"title": "Coffee"})).json()
    assert renamed == made | {"title": "Coffee"}
    assert (await tree.get(where)).json()["title"] == "Coffee"
    assert (await tree.client.delete(where)).json() == {"id": made["id"], "deleted": True}
    for gone in (tree.get(where), tree.post(where, {"title": "x"}), tree.client.delete(where)):
        assert (await gone).status_code == 404
    name = made["id"].removeprefix("conv_")
    assert tree.watching.told == [("renamed", name, "Coffee"), ("deleted", name)]


async def test_a_title_stands_beside_other_metadata_and_may_be_taken_away(tree: TreeServer) -> None:
    made = await tree.sessions.catalogue.create("", (), {"topic": "tea"})
    await tree.post(f"/page/conversations/conv_{made.id}", {"title": "Tea"})
    assert (await tree.sessions.catalogue.conversation("", made.id)).metadata == {"topic": "tea", "title": "Tea"}
    assert (await tree.post(f"/page/conversations/conv_{made.id}", {"title": ""})).json()["title"] is None


async def test_titles_keep_the_marks_that_other_scripts_are_written_with(tree: TreeServer) -> None:
    title = "می‌خواهم 👩‍💻 今日"
    assert (await tree.post("/page/conversations", {"title": title})).json()["title"] == title


async def test_the_list_goes_on_page_by_page_the_latest_used_first(tree: TreeServer) -> None:
    names = [await tree.told(str(number)) for number in range(5)]
    await reply(tree.sessions, names[0], None, "again")
    first = (await tree.get("/page/conversations?limit=2")).json()
    assert [row["id"] for row in first["data"]] == [f"conv_{names[0]}", f"conv_{names[4]}"]
    assert first["has_more"]
    rest = (await tree.get(f"/page/conversations?after={first['data'][-1]['id']}")).json()
    assert [row["id"] for row in rest["data"]] == [f"conv_{name}" for name in (names[3], names[2], names[1])]
    assert not rest["has_more"]
    assert all("excerpt" not in row for row in rest["data"])


async def test_a_session_that_a_client_named_is_listed_by_its_name(tree: TreeServer) -> None:
    async with tree.sessions.session("", "diary", [Message("user", "q")]) as opened:
        await opened.save([1], [2], "a", "completed")
    assert [row["title"] for row in (await tree.get("/page/conversations")).json()["data"]] == ["diary"]


async def test_a_search_finds_titles_and_words_and_shows_them_as_plain_text(tree: TreeServer) -> None:
    said = await tree.told(f"What does {EVIL} do?", "It alerts.")
    titled = await tree.told("else", title=EVIL)
    found = (await tree.get("/page/conversations?query=ALERT(1)")).json()["data"]
    assert [(row["id"], row.get("excerpt")) for row in found] == [
        (f"conv_{titled}", None),
        (f"conv_{said}", f"What does {EVIL} do?"),
    ]
    assert [row["id"] for row in (await tree.get("/page/conversations?query=alerts%20do")).json()["data"]] == [
        f"conv_{said}"
    ]
    assert (await tree.get("/page/conversations?query=nowhere")).json() == {"data": [], "has_more": False}


async def test_a_turn_that_runs_anywhere_is_seen(tree: TreeServer, another_process: SessionManager) -> None:
    names = [await tree.told(text) for text in "ab"]

    async def shown() -> tuple[list[bool], list[Any]]:
        rows = (await tree.get("/page/conversations")).json()["data"]
        trees = [(await tree.get(f"/page/conversations/conv_{name}")).json()["running"] for name in names]
        return [row["running"] for row in rows], trees

    assert await shown() == ([False, False], [None, None])
    async with another_process.conversation("", names[0], [Message("user", "q")]):
        assert await shown() == ([False, True], ["elsewhere", None])
    async with tree.sessions.conversation("", names[1], [Message("user", "q")]) as opened:
        tree.watching.turns[names[1]] = opened.turn_id
        assert await shown() == ([True, False], [None, f"resp_{opened.turn_id}"])


async def test_a_tree_has_every_turn_of_every_branch_rendered_and_sanitized(tree: TreeServer) -> None:
    made = await tree.sessions.catalogue.create("", [Message("system", "Be *brief*.")])
    first = await reply(tree.sessions, made.id, None, f"**bold** {EVIL}", "<think>hm</think>One.\n\nTwo.")
    left = await reply(tree.sessions, made.id, first.id, "left", "l")
    right = await reply(tree.sessions, made.id, first.id, "right", EVIL)
    shown = (await tree.get(f"/page/conversations/conv_{made.id}")).json()
    assert (shown["id"], shown["leaf"], shown["running"]) == (f"conv_{made.id}", f"resp_{right.id}", None)
    assert [(turn["id"], turn["parent"]) for turn in shown["turns"]] == [
        (f"resp_{made.leaf}", None),
        (f"resp_{first.id}", f"resp_{made.leaf}"),
        (f"resp_{left.id}", f"resp_{first.id}"),
        (f"resp_{right.id}", f"resp_{first.id}"),
    ]
    begun, turn, _, last = shown["turns"]
    assert begun["messages"][0]["html"].startswith("<p>Be <em>brief</em>")
    assert (begun["answer"], begun["blocks"]) == (None, [])
    assert (turn["answer"], turn["status"]) == ("<think>hm</think>One.\n\nTwo.", "completed")
    assert "hm" in turn["thinking_html"]
    assert [block.strip() for block in turn["blocks"]] == ["<p>One.</p>", "<p>Two.</p>"]
    assert turn["messages"][0]["text"] == f"**bold** {EVIL}"
    assert turn["messages"][0]["html"] is None, "what a user wrote is shown as it was written"
    for html in last["blocks"]:
        assert "<script" not in html
        assert "<img" not in html


async def test_a_turn_shows_what_was_kept_with_it(tree: TreeServer) -> None:
    made = await tree.sessions.catalogue.create("")
    notes = TurnNotes(created_at=1, model="m", temperature=0.5, top_p=0.9, max_output_tokens=7)
    mine = msgspec.structs.replace(
        notes, times=Times(ttft_ms=12.5, tokens_per_second=30.0), settings={"temperature": 0.5, "seed": 3}
    )
    for each in (notes, mine):
        async with tree.sessions.turn_at("", made.id, None, [Message("user", "q")], instructions="Be kind.") as opened:
            await opened.save([1], [2], "a", "cancelled", detail=msgspec.json.encode(each))
    _, api, own = (await tree.get(f"/page/conversations/conv_{made.id}")).json()["turns"]
    assert (api["settings"], api["times"]) == ({"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 7}, None)
    assert (own["settings"], own["times"]) == (
        {"temperature": 0.5, "seed": 3},
        {"ttft_ms": 12.5, "tokens_per_second": 30.0},
    )
    assert (own["instructions"], own["status"], own["usage"]) == ("Be kind.", "cancelled", None)


async def test_what_was_deleted_is_not_shown_and_its_turns_keep_their_places(tree: TreeServer) -> None:
    made = await tree.sessions.catalogue.create("")
    first = await reply(tree.sessions, made.id, None, "secret", "SECRET")
    await reply(tree.sessions, made.id, first.id, "next", "b")
    taken = await reply(tree.sessions, made.id, first.id, "third", "c")
    await tree.sessions.catalogue.delete_answer("", first.id)
    item = f"msg_{taken.id}_1"
    assert (await tree.client.delete(f"/v1/conversations/conv_{made.id}/items/{item}")).status_code == 200
    where = f"/page/conversations/conv_{made.id}"
    turns = (await tree.get(where)).json()["turns"]
    assert [[message["text"] for message in turn["messages"]] for turn in turns] == [[], [], ["next"], ["third"], []]
    assert [turn["answer"] for turn in turns] == [None, None, "b", None, None]
    for kind in ("json", "markdown"):
        text = (await tree.get(f"{where}/export?format={kind}")).text
        assert "secret" not in text.lower()
        assert "removed" not in text
    for word, found in (("secret", 0), ("c", 0), ("removed", 0), ("third", 1), ("b", 1)):
        assert len((await tree.get(f"/page/conversations?query={word}")).json()["data"]) == found


async def test_conversations_of_others_are_not_there(tree: TreeServer) -> None:
    theirs = await tree.told("secret", tenant="them")
    where = f"/page/conversations/conv_{theirs}"
    for asked in (
        tree.get(where),
        tree.get(f"{where}/export"),
        tree.post(where, {"title": "x"}),
        tree.client.delete(where),
        tree.get(f"/page/conversations?after=conv_{theirs}"),
        tree.get("/page/conversations/none"),
        tree.get(f"/page/conversations/{theirs}"),
    ):
        reply = await asked
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")
    for query in ("", "?query=secret"):
        assert (await tree.get(f"/page/conversations{query}")).json()["data"] == []
    assert (await tree.get(f"{where}?cache_salt=them")).status_code == 200
    assert tree.watching.told == []


async def test_where_there_are_keys_each_sees_its_own_and_nobody_without_one_sees_any(
    place: str, tokenizer: Tokenizer, engine: ScriptedEngine, tmp_path: Path
) -> None:
    store = await open_store(place)
    edge = Edge(keys=KeyRing(lambda: keys_in(tmp_path, template=OPEN)))
    async with tree_server(store, tokenizer, engine, ServerLimits(), edge) as server:
        alice, bob = [
            httpx.AsyncClient(transport=server.client._transport, base_url="http://test", headers=bearer(secret))
            for secret in (ALICE, BOB)
        ]
        made = (await alice.post("/page/conversations", json={"title": "secret"})).json()
        where = f"/page/conversations/{made['id']}"
        for path in ("/page/conversations", where, f"{where}/export"):
            assert (await server.get(path)).status_code == 401
        assert (await server.post("/page/import", {})).status_code == 401
        assert (await bob.get("/page/conversations?query=secret")).json()["data"] == []
        for asked in (bob.get(where), bob.get(f"{where}/export"), bob.post(where, json={"title": "x"})):
            assert (await asked).status_code == 404
        assert (await bob.delete(where)).status_code == 404
        assert (await alice.get("/page/conversations?query=secret")).json()["data"] == [made]
    await store.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "param"),
    [
        ("GET", "/page/conversations?limit=0", None, "limit"),
        ("GET", "/page/conversations?limit=x", None, "limit"),
        ("GET", f"/page/conversations?query={'x' * 201}", None, "query"),
        ("GET", f"/page/conversations?query={'+'.join('abcdefghi')}", None, "query"),
        ("GET", "/page/conversations?query=a%00b", None, "query"),
        ("POST", "/page/conversations", {"title": 3}, "title"),
        ("POST", "/page/conversations", {"title": "x" * 201}, "title"),
        ("POST", "/page/conversations/{id}", {}, "title"),
        ("POST", "/page/conversations/{id}", {"title": None}, "title"),
        ("GET", "/page/conversations/{id}/export?format=html", None, "format"),
    ],
)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_bad_input_is_refused_by_name(
    tree: TreeServer, method: str, path: str, body: dict[str, Any] | None, param: str
) -> None:
    made = await tree.sessions.catalogue.create("")
    reply = await tree.client.request(method, path.replace("{id}", f"conv_{made.id}"), json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)


async def test_a_body_that_does_not_say_that_it_is_json_is_refused(tree: TreeServer) -> None:
    """A foreign page could send it without being asked."""
    made = await tree.sessions.catalogue.create("", (), {"title": "kept"})
    for path in ("/page/conversations", f"/page/conversations/conv_{made.id}", "/page/import"):
        for kind in ("text/plain", "application/x-www-form-urlencoded", None):
            headers = {"content-type": kind} if kind else {}
            refused = await tree.client.post(path, content=b'{"title": "x"}', headers=headers)
            assert refused.status_code == 415
    assert (await tree.sessions.catalogue.conversation("", made.id)).metadata == {"title": "kept"}
    assert len((await tree.sessions.catalogue.recent("")).values) == 1
