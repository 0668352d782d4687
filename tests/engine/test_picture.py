"""The rTree's picture of a real engine: who is who in it, and how it reaches a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import zmq
from msgspec import structs

from chatserve.engine.client import EngineClient
from chatserve.engine.messages import MemoryPicture
from chatserve.engine.picture import PictureNode
from chatserve.engine.port import EngineUnavailable
from chatserve.engine.process import Desk, Wire
from chatserve.engine.telling import tell_picture
from tests.engine.lab import CHUNK, CHUNK_BYTES, Lab, ids
from tests.engine.test_clients import READY


def picture(lab: Lab, tenant: str = "", most: int = 100, focus: Sequence[str] = ()) -> MemoryPicture:
    seen = lab.engine.picture(tenant, most=most, focus=focus).result()
    return tell_picture(seen, lab.engine.stats(seen.stats))


def named(drawn: MemoryPicture, label: str) -> PictureNode:
    (node,) = (node for node in drawn.nodes if node.label == label)
    return node


def test_an_answer_has_its_name_from_its_first_step_on(lab: Lab) -> None:
    lab.ask("a", ids(CHUNK + 9), max_tokens=20, label="first")
    lab.run(until=lambda: bool(lab.answers["a"].deltas))
    running = picture(lab)
    assert (named(running, "first").in_use, named(running, "first").next) == (True, None)
    assert running.stats.running == 1
    lab.run()
    ended = named(picture(lab), "first")
    assert (ended.in_use, ended.warm, ended.next, ended.end) == (False, True, 0, CHUNK + 9 + 19)


def test_the_next_turn_keeps_the_node_and_a_branch_gets_its_own(lab: Lab) -> None:
    first = lab.answer("a", ids(2 * CHUNK), label="one")
    node = named(picture(lab), "one")
    past = [*ids(2 * CHUNK), *first.tokens]
    lab.answer("b", [*past, *ids(9, 1)], label="one")
    assert named(picture(lab), "one").id == node.id
    lab.answer("c", [*past[: CHUNK + 3], *ids(9, 2)], label="two")
    drawn = picture(lab)
    stem = drawn.nodes[0]
    assert [named(drawn, label).parent for label in ("one", "two")] == [stem.id, stem.id]
    assert (stem.label, stem.shared, stem.end, stem.chunks) == ("", True, CHUNK + 3, 1)


def test_a_turn_that_was_preempted_has_its_name_still(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(kv_chunks=5)
    for name in ("a", "b"):
        lab.ask(name, ids(CHUNK + 30, seed=ord(name)), max_tokens=2 * CHUNK, label=f"of {name}")
    lab.run()
    assert lab.stats().preemptions > 0
    assert "of b" in [node.label for node in picture(lab).nodes]


def test_another_tenant_sees_only_how_much_there_is(lab: Lab) -> None:
    lab.answer("a", ids(CHUNK + 5), max_tokens=1, label="secret", tenant="ann")
    drawn = picture(lab, "bob")
    assert (drawn.nodes, drawn.others.nodes, drawn.others.bytes) == ((), 1, 2 * CHUNK_BYTES["cpu"])
    assert drawn.chunk_bytes == CHUNK_BYTES["cpu"]


def test_a_picture_changes_nothing(lab: Lab) -> None:
    lab.ask("a", ids(CHUNK + 9), label="first")
    while lab.engine.busy:
        lab.turn()
        before = lab.stats()
        picture(lab)
        lab.engine.audit()
        assert lab.stats() == before


def test_what_went_back_to_the_device_is_told(lab: Lab) -> None:
    lab.answer("a", ids(CHUNK + 9), max_tokens=1)
    lab.engine.flush().result()
    assert picture(lab).stats.given_back_bytes >= 2 * CHUNK_BYTES["cpu"]


async def test_a_client_sees_it_over_the_wire(lab: Lab, tmp_path: Path) -> None:
    lab.answer("a", ids(CHUNK + 9), max_tokens=1, label="first")
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    endpoint = f"ipc://{tmp_path}/engine"
    wire = Wire.listen(context, endpoint)
    desk, client = Desk(lab.engine, wire, READY), EngineClient("one")
    client.attach(endpoint)

    async def serve() -> None:
        while True:
            for name, message in wire.received():
                desk.handle(name, message)
            desk.tell(lab.engine.advance())
            await asyncio.sleep(0.001)

    serving = asyncio.create_task(serve())
    try:
        async with asyncio.timeout(10):
            await client.start()
            drawn = await client.picture("", most=5, focus=["first"])
            assert named(drawn, "first").end == CHUNK + 9
            assert at_rest(drawn) == at_rest(picture(lab))
        asked = asyncio.create_task(client.picture("", most=5))
        await asyncio.sleep(0)
        client.detach()
        with pytest.raises(EngineUnavailable):
            await asked
        with pytest.raises(EngineUnavailable):
            await client.picture("", most=5)
    finally:
        serving.cancel()
        await client.close()
        wire.socket.close(linger=0)
        context.term()


def at_rest(drawn: MemoryPicture) -> MemoryPicture:
    """Without how long ago everything was used."""
    return structs.replace(drawn, nodes=tuple(structs.replace(node, idle=0.0) for node in drawn.nodes))
