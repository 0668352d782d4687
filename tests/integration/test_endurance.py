"""Conversations that go through everything at once: clients that leave, a store that restarts, an engine that dies."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from sessions.places import open_store
from sessions.turns import Turn, chain_ids
from tests.engine.lab import Oracle
from tests.integration.serving import Serving, serving, until, wait_until
from tests.integration.talker import RESPONSES, Seen, Talker, text_of
from tests.integration.tiny import Tiny, make_tiny
from tests.sessions.redis_server import RedisServer

CONVERSATIONS = 50
TURNS = (100, pytest.param(1_000, marks=pytest.mark.long))
"""As many as every run of the tests has time for, and as many as `pytest -m long` has."""
BREAKS = 0.05
SAMPLE = 50
AWAY = 0.3
"""Seconds that the Redis server is down."""
DISTURBED = {"not_ready", "engine_died", "store"}
"""What somebody may be told meanwhile; that an answer was not saved is not among it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where conversations are kept, and the server behind it, if it is one."""

    url: str
    redis: RedisServer | None

    def restart(self) -> None:
        """Nothing, where the store is a file."""
        if self.redis is not None:
            self.redis.stop()
            time.sleep(AWAY)
            self.redis.start()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(params=["redis", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(f"sqlite:///{tmp_path / 'sessions.sqlite3'}", None)
        return
    redis = RedisServer(tmp_path / "redis")
    redis.start()
    yield Place(redis.url, redis)
    redis.stop(signal.SIGKILL)


@contextmanager
def ready(tiny: Tiny, place: Place, folder: Path) -> Iterator[Serving]:
    """A server of two workers, both of which are ready."""
    arguments = (str(tiny.folder), "--device", "cpu", "--workers", "2", "--kv-limit", "256M")
    with serving(*arguments, folder=folder, sessions=place.url) as server:
        wait_until(lambda: "is ready at" in server.output.read_text())
        yield server


def begun(server: Serving, count: int) -> list[Talker]:
    """So many new conversations, and who talks in them."""
    with httpx.Client(base_url=server.url, timeout=60) as http:
        names = [http.post("/v1/conversations", json={}).raise_for_status().json()["id"] for _ in range(count)]
    return [Talker(server.port, name, f"Talker {number}", seed=number) for number, name in enumerate(names)]


def listed(http: httpx.Client, conversation: str) -> list[tuple[str, str, str]]:
    """Role, text and status of each item, from page to page."""
    found: list[dict[str, Any]] = []
    more, query = True, {"order": "asc", "limit": "20"}
    while more:
        page = http.get(f"/v1/conversations/{conversation}/items", params=query).raise_for_status().json()
        found, more, query = found + page["data"], page["has_more"], query | {"after": page["last_id"]}
    assert len({item["id"] for item in found}) == len(found)
    return [(item["role"], item["content"][0]["text"], item["status"]) for item in found]


def as_items(chain: Sequence[Turn]) -> list[tuple[str, str, str]]:
    """A turn's messages, and the answer that its client saw."""
    items = []
    for turn in chain:
        items += [(message.role, message.content, "completed") for message in turn.messages]
        items += [("assistant", turn.answer or "", "completed" if turn.status == "completed" else "incomplete")]
    return items


async def chains_of(place: Place, talkers: Sequence[Talker]) -> list[list[Turn]]:
    """What the store has of each conversation, as it lies there."""
    store = await open_store(place.url)
    try:
        chains = []
        for talker in talkers:
            found = await store.conversation(talker.conversation.removeprefix("conv_"))
            assert found is not None
            assert found.leaf is not None
            chains.append((await store.chain(found.leaf))[1:])  # the first turn of all only begins the conversation
        return chains
    finally:
        await store.close()


def check_kept(seen: Sequence[Seen], chain: Sequence[Turn]) -> None:
    """What the client saw is what is kept: nothing lost, nothing twice, and in its order."""
    kept = iter(chain)
    turn = next(kept, None)
    for each in seen:
        asked = turn.messages[0].content if turn is not None else None
        if asked != each.asked:
            assert each.end == "refused" or (each.end == "failed" and not each.text), f"lost: {each}"
            continue
        assert turn is not None
        assert len(turn.messages) == 1
        assert each.end != "refused", f"kept, though nothing was sent: {each}"
        assert f"resp_{turn.id}" == each.response
        if each.end == "left":  # what was on its way when it left was sent too
            assert turn.answer is not None
            assert turn.answer.startswith(each.text)
            assert turn.status in ("cancelled", "length", "failed")
        else:
            assert turn.answer == each.text
            assert {"length": "incomplete"}.get(turn.status, turn.status) == each.end
        turn = next(kept, None)
    assert turn is None, f"nobody asked this, or not here: {turn}"


def check_said(chain: Sequence[Turn], number: int, tiny: Tiny, oracle: Oracle) -> None:
    """The turn's answer is what the model says alone to the stored token ids before it."""
    turn = chain[number]
    prompt = chain_ids(chain[:number]) + turn.prompt_ids
    if turn.status in ("completed", "length"):
        assert oracle.agrees(prompt, turn.output_ids)
        assert tiny.tokenizer.decode(turn.output_ids) == turn.answer
        return
    tokens = list(prompt)  # one that was cut may end inside a token, of which only what was seen is kept
    while len(tokens) < len(prompt) + len(turn.output_ids) + 1:
        tokens.append(int(oracle.logits(tokens).argmax()))
    assert tiny.tokenizer.decode(tokens[len(prompt) :]).startswith(turn.answer or "")


@dataclass(slots=True)
class Crowd:
    """Everybody talks at once, each in one conversation, until so many turns have ended."""

    talkers: Sequence[Talker]
    ended: int = 0

    async def talk(self, turns: int, breaks: float) -> None:
        async with asyncio.TaskGroup() as group:
            for talker in self.talkers:
                group.create_task(self._talk(talker, turns // len(self.talkers), breaks))

    def past(self, turns: int) -> bool:
        return self.ended >= turns

    async def _talk(self, talker: Talker, turns: int, breaks: float) -> None:
        while turns:
            ended = (await talker.turn(breaks=breaks)).end not in ("failed", "refused")
            self.ended += ended
            turns -= ended


@asynccontextmanager
async def disturbed(crowd: Crowd, turns: int, *acts: Callable[[], None]) -> AsyncIterator[None]:
    """The acts happen one after another, at equal distances, while the crowd talks for so many turns."""

    async def disturb() -> None:
        for number, act in enumerate(acts, 1):
            await until(partial(crowd.past, turns * number // (len(acts) + 1)), 100)
            await asyncio.to_thread(act)

    async with asyncio.TaskGroup() as group:
        group.create_task(disturb())
        yield


@pytest.mark.timeout(600)
@pytest.mark.parametrize("turns", TURNS)
async def test_turns_lose_nothing_to_leaving_clients_a_restarted_store_and_a_dead_engine(
    turns: int, tiny: Tiny, place: Place, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with ready(tiny, place, tmp_path) as server:
        talkers = begun(server, CONVERSATIONS)
        crowd = Crowd(talkers)
        async with disturbed(crowd, turns, place.restart, lambda: os.kill(server.engine_pid(), signal.SIGKILL)):
            await crowd.talk(turns, BREAKS)
        await until(server.is_ready, 60)
        await crowd.talk(CONVERSATIONS, breaks=0)  # each is resumed once more
        chains = await chains_of(place, talkers)
        with httpx.Client(base_url=server.url, timeout=60) as http:
            for talker, chain in zip(talkers, chains, strict=True):
                check_kept(talker.seen, chain)
                assert listed(http, talker.conversation) == as_items(chain)
    ends = Counter(seen.code or seen.end for talker in talkers for seen in talker.seen)
    assert {seen.code for talker in talkers for seen in talker.seen if seen.code} <= DISTURBED
    assert "Traceback" not in server.output.read_text()
    oracle, random = Oracle(tiny.model), Random(0)
    for chain in chains:
        check_said(chain, len(chain) - 1, tiny, oracle)
    for chain in random.choices(chains, k=SAMPLE):
        check_said(chain, random.randrange(len(chain)), tiny, oracle)
    record_property("ends", dict(ends))
    record_property("near_ties", oracle.near_ties)


def resumed(server: Serving, talker: Talker, **fields: object) -> tuple[str, int, int]:
    """The text of its next answer, and how many tokens it was given, and of those not computed again."""
    body = {"conversation": talker.conversation, "input": "And now?", "temperature": 0, "max_output_tokens": 24}
    reply = server.post(RESPONSES, body | fields)
    assert reply.status_code == 200, reply.text
    usage = reply.json()["usage"]
    return text_of(reply.json()), usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]


async def test_a_conversation_resumed_after_a_full_restart_is_answered_as_if_nothing_had_happened(
    tiny: Tiny, place: Place, tmp_path: Path
) -> None:
    with ready(tiny, place, tmp_path) as server:
        talkers = begun(server, 10)
        await Crowd(talkers).talk(30, breaks=0.3)
        before = [resumed(server, talker, store=False) for talker in talkers]
        assert server.told(signal.SIGTERM, 30) == 0
    place.restart()
    with ready(tiny, place, tmp_path) as server:
        after = [resumed(server, talker) for talker in talkers]
    assert [answer[:2] for answer in after] == [answer[:2] for answer in before]
    assert all(cached for *_, cached in before)
    chains, oracle = await chains_of(place, talkers), Oracle(tiny.model)
    for talker, chain in zip(talkers, chains, strict=True):
        check_kept(talker.seen, chain[:-1])
        check_said(chain, len(chain) - 1, tiny, oracle)
