"""A tour of conversations and responses as the official client makes it, unchanged: synchronous and asynchronous, on a
SQLite file, and with two API processes on one Redis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from openai import AsyncOpenAI, NotFoundError

from tests.integration.recital import Recital
from tests.integration.serving import WIDE, Serving, serving
from tests.sessions.redis_server import RedisServer

pytestmark = pytest.mark.model

LIMIT = 12
ASKED: dict[str, Any] = {"model": WIDE, "max_output_tokens": LIMIT, "extra_body": {"ignore_eos": True}}


@dataclass(frozen=True, slots=True)
class Seen:
    """What a tour brought, stop by stop."""

    conversation: Any
    renamed: Any
    first: Any
    streamed: list[Any]
    helped: list[Any]
    regenerated: Any
    read_again: Any
    given: list[Any]
    items: list[Any]
    item: Any
    deleted: Any
    gone: list[int]


def by_the_synchronous_client(server: Serving) -> Seen:
    with server.openai() as client:
        conversation = client.conversations.create(
            items=[{"role": "system", "content": "Recite."}], metadata={"topic": "tour"}
        )
        renamed = client.conversations.update(conversation.id, metadata={"topic": "renamed"})
        first = client.responses.create(input="one", conversation=conversation.id, **ASKED)
        streamed = list(client.responses.create(input="two", conversation=conversation.id, stream=True, **ASKED))
        with client.responses.stream(input="three", conversation=conversation.id, **ASKED) as stream:
            helped = list(stream)
        regenerated = client.responses.create(input="two", previous_response_id=first.id, **ASKED)
        read_again = client.responses.retrieve(regenerated.id)
        given = list(client.responses.input_items.list(regenerated.id))
        items = list(client.conversations.items.list(conversation.id, order="asc", limit=2))
        item = client.conversations.items.retrieve(items[2].id, conversation_id=conversation.id)
        client.responses.delete(regenerated.id)
        deleted = client.conversations.delete(conversation.id)
        gone = [
            missing(lambda: client.responses.retrieve(regenerated.id)),
            missing(lambda: client.conversations.retrieve(conversation.id)),
        ]
    return Seen(
        conversation, renamed, first, streamed, helped, regenerated, read_again, given, items, item, deleted, gone
    )


def missing(call: Callable[[], Any]) -> int:
    with pytest.raises(NotFoundError) as error:
        call()
    return error.value.status_code


async def by_the_asynchronous_client(server: Serving) -> Seen:
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        conversation = await client.conversations.create(
            items=[{"role": "system", "content": "Recite."}], metadata={"topic": "tour"}
        )
        renamed = await client.conversations.update(conversation.id, metadata={"topic": "renamed"})
        first = await client.responses.create(input="one", conversation=conversation.id, **ASKED)
        events = await client.responses.create(input="two", conversation=conversation.id, stream=True, **ASKED)
        streamed = [event async for event in events]
        async with client.responses.stream(input="three", conversation=conversation.id, **ASKED) as stream:
            helped = [event async for event in stream]
        regenerated = await client.responses.create(input="two", previous_response_id=first.id, **ASKED)
        read_again = await client.responses.retrieve(regenerated.id)
        given = [item async for item in client.responses.input_items.list(regenerated.id)]
        items = [item async for item in client.conversations.items.list(conversation.id, order="asc", limit=2)]
        item = await client.conversations.items.retrieve(items[2].id, conversation_id=conversation.id)
        await client.responses.delete(regenerated.id)
        deleted = await client.conversations.delete(conversation.id)
        gone = []
        for call in (client.responses.retrieve(regenerated.id), client.conversations.retrieve(conversation.id)):
            with pytest.raises(NotFoundError) as error:
                await call
            gone.append(error.value.status_code)
    return Seen(
        conversation, renamed, first, streamed, helped, regenerated, read_again, given, items, item, deleted, gone
    )


def check(seen: Seen, recital: Recital) -> None:
    """Every stop of a tour, by what its model is known to say."""
    texts = []
    for reply in (seen.first, seen.streamed[-1].response, seen.helped[-1].response, seen.regenerated):
        assert reply.output_text == recital.text(reply.usage.input_tokens, LIMIT)
        assert (reply.status, reply.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        texts.append(reply.output_text)
    for events in (seen.streamed, seen.helped):
        assert events[0].type == "response.created"
        assert [event.sequence_number for event in events] == list(range(len(events)))
        deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
        assert "".join(deltas) == events[-1].response.output_text
    first, second = seen.first, seen.streamed[-1].response
    past = first.usage.total_tokens
    assert second.usage.input_tokens_details.cached_tokens >= past - 2
    assert seen.regenerated.usage.input_tokens_details.cached_tokens >= past - 2
    assert texts[3] == texts[1], "regenerated at the same place"
    assert seen.read_again == seen.regenerated
    assert seen.conversation.metadata == {"topic": "tour"}
    assert (seen.renamed.id, seen.renamed.metadata) == (seen.conversation.id, {"topic": "renamed"})
    assert [item.content[0].text for item in seen.given] == ["two"]
    told = [item.content[0].text for item in seen.items]
    assert told == ["Recite.", "one", texts[0], "two", texts[1], "three", texts[2]]
    assert (seen.item.role, seen.item.content[0].text) == ("assistant", texts[0])
    assert seen.deleted.deleted
    assert seen.gone == [404, 404]


@pytest.fixture(scope="module")
def on_redis(recital: Recital, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Two API processes."""
    folder = tmp_path_factory.mktemp("on-redis")
    redis = RedisServer(folder / "redis")
    redis.start()
    try:
        arguments = (str(recital.folder), "--device", "cpu", "--workers", "2", "--name", WIDE)
        with serving(*arguments, folder=folder, sessions=redis.url) as server:
            yield server
    finally:
        redis.stop()


def test_the_synchronous_client_makes_the_tour_on_sqlite(reciting: Serving, recital: Recital) -> None:
    check(by_the_synchronous_client(reciting), recital)


async def test_the_asynchronous_client_makes_the_tour_on_sqlite(reciting: Serving, recital: Recital) -> None:
    check(await by_the_asynchronous_client(reciting), recital)


def test_a_response_is_cancelled_through_whichever_process_is_asked(on_redis: Serving) -> None:
    with on_redis.openai() as client:
        for _ in range(6):
            stream = client.responses.create(
                model=WIDE, input="on and on", stream=True, extra_body={"ignore_eos": True}
            )
            name = next(stream).response.id
            cancelled = on_redis.post(f"/v1/responses/{name}/cancel", {})
            assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
            assert list(stream)[-1].response.status == "cancelled"
    assert on_redis.post("/v1/responses/resp_none/cancel", {}).status_code == 404


def test_the_synchronous_client_makes_the_tour_on_redis(on_redis: Serving, recital: Recital) -> None:
    check(by_the_synchronous_client(on_redis), recital)


async def test_the_asynchronous_client_makes_the_tour_on_redis(on_redis: Serving, recital: Recital) -> None:
    check(await by_the_asynchronous_client(on_redis), recital)
