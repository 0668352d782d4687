"""Several clients of one engine: each is told of its own requests only, and takes them along when it goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
import zmq

from chatserve.engine.client import EngineClient
from chatserve.engine.engine import Engine
from chatserve.engine.messages import Delta, EngineLimits, Generate, Ready, Reuse
from chatserve.engine.port import EngineDied, EngineUnavailable
from chatserve.engine.process import Desk, Wire
from chatserve.engine.stream import Stream
from chatserve.model.sampling import SamplingDefaults, SamplingParams
from chatserve.model.spec import ModelSpec

READY = Ready(
    spec=ModelSpec(
        name="none",
        layers=1,
        heads=1,
        kv_heads=1,
        head_dim=8,
        vocab_size=9,
        max_len=9,
        dtype="float32",
        end_ids=(),
        defaults=SamplingDefaults(),
    ),
    limits=EngineLimits(max_tokens=9, max_running=9),
)


class Noted:
    """An engine that notes what it is asked."""

    def __init__(self) -> None:
        self.added: list[str] = []
        self.stopped: list[tuple[str, int | None]] = []

    def add(self, asked: Generate) -> None:
        self.added.append(asked.id)

    def stop(self, request_id: str, keep: int | None) -> None:
        self.stopped.append((request_id, keep))


class Bench:
    """A desk, and clients of it; `turn` lets it handle what has come."""

    def __init__(self, folder: Path) -> None:
        self.endpoint = f"ipc://{folder}/engine"
        self._context = zmq.Context()
        self.wire = Wire.listen(self._context, self.endpoint)
        self.engine = Noted()
        self.desk = Desk(cast(Engine, self.engine), self.wire, READY)

    async def client(self, name: str) -> EngineClient:
        client = EngineClient(name)
        client.attach(self.endpoint)
        await self.until(lambda: client.alive)
        return client

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(5):
            while not true():
                for client, message in self.wire.received():
                    self.desk.handle(client, message)
                await asyncio.sleep(0.001)

    def close(self) -> None:
        self.wire.socket.close(linger=0)
        self._context.term()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.close()


@pytest.fixture
async def two(bench: Bench) -> AsyncIterator[tuple[EngineClient, EngineClient]]:
    clients = (await bench.client("one"), await bench.client("two"))
    yield clients
    for client in clients:
        await client.close()


def ask(client: EngineClient, request_id: str) -> Stream:
    return client.submit(Generate(id=request_id, prompt=b"", params=SamplingParams(max_tokens=5)))


async def test_a_step_is_one_message_to_each_client_that_has_something_and_nothing_to_others(
    bench: Bench, two: tuple[EngineClient, EngineClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []
    send = Wire.send
    monkeypatch.setattr(Wire, "send", lambda wire, client, message: (sent.append(client), send(wire, client, message)))
    streams = [ask(two[0], "a"), ask(two[0], "b"), ask(two[1], "c")]
    await bench.until(lambda: len(bench.engine.added) == 3)
    bench.desk.tell([Delta(id="a", tokens=(1,)), Delta(id="b", tokens=(2,))])
    assert sent == [b"one"]
    bench.desk.tell([Delta(id=name, tokens=(3,)) for name in "cab"])
    assert sorted(sent) == [b"one", b"one", b"two"]
    bench.desk.tell([])
    assert len(sent) == 3
    for stream in streams:
        while (await anext(stream)).tokens[-1] != 3:
            pass


async def test_two_requests_of_one_id_never_meet(bench: Bench, two: tuple[EngineClient, EngineClient]) -> None:
    mine = ask(two[0], "same")
    await bench.until(lambda: bench.engine.added)
    other = ask(two[1], "same")
    refused = asyncio.ensure_future(anext(other))
    await bench.until(refused.done)
    assert refused.result().finish == "refused"
    other.stop()
    bench.desk.tell([Delta(id="same", tokens=(1,))])
    assert (await anext(mine)).tokens == (1,)
    mine.stop(1)
    await bench.until(lambda: bench.engine.stopped)
    assert (bench.engine.added, bench.engine.stopped) == (["same"], [("same", 1)])


async def test_what_a_client_leaves_behind_is_stopped_and_what_it_said_last_is_not_begun(
    bench: Bench, two: tuple[EngineClient, EngineClient]
) -> None:
    for name in "ab":
        ask(two[0], name)
    staying = ask(two[1], "c")
    await bench.until(lambda: len(bench.engine.added) == 3)
    two[1].forget("one")
    await bench.until(lambda: len(bench.engine.stopped) == 2)
    assert sorted(bench.engine.stopped) == [("a", None), ("b", None)]
    ask(two[0], "late")
    bench.desk.tell([Delta(id=name, tokens=(1,)) for name in "abc"])
    assert (await anext(staying)).tokens == (1,)
    staying.stop()
    await bench.until(lambda: ("c", None) in bench.engine.stopped)
    assert "late" not in bench.engine.added


async def test_a_client_that_reads_nothing_holds_nobody_up(
    bench: Bench, two: tuple[EngineClient, EngineClient]
) -> None:
    context = zmq.Context()
    silent = context.socket(zmq.DEALER)
    silent.setsockopt(zmq.IDENTITY, b"silent")
    silent.set_hwm(1)
    silent.connect(bench.endpoint)
    desk = bench.desk
    desk.handle(b"silent", Generate(id="ignored", prompt=b"", params=SamplingParams(max_tokens=5)))
    stream = ask(two[0], "a")
    await bench.until(lambda: "a" in bench.engine.added)
    for _ in range(20_000):
        desk.tell([Delta(id="ignored", tokens=(1,)), Delta(id="a", tokens=(1,))])
    received = 0
    async with asyncio.timeout(10):
        while received < 20_000:
            received += len((await anext(stream)).tokens)
    silent.close(linger=0)
    context.term()


async def test_streams_end_with_their_engine_and_the_next_one_is_found_under_another_address(
    bench: Bench, two: tuple[EngineClient, EngineClient], tmp_path: Path
) -> None:
    stream = ask(two[0], "a")
    await bench.until(lambda: bench.engine.added)
    bench.desk.tell([Delta(id="a", tokens=(1,))])
    await bench.until(lambda: stream._last is not None)
    two[0].detach()
    assert (await anext(stream)).tokens == (1,), "what had arrived is delivered"
    with pytest.raises(EngineDied):
        await anext(stream)
    with pytest.raises(EngineUnavailable):
        ask(two[0], "b")
    (tmp_path / "next").mkdir()
    following = Bench(tmp_path / "next")
    two[0].attach(following.endpoint)
    await following.until(lambda: two[0].alive)
    ask(two[0], "b")
    await following.until(lambda: following.engine.added == ["b"])
    two[0].detach()
    following.close()


async def test_a_slow_reader_gets_what_has_come_meanwhile_as_one() -> None:
    stream = Stream("a", lambda _id, _keep: None)
    stream.put(Delta(id="a", tokens=(1,), reuse=Reuse(mapped=4, copied=3), completion_tokens=1))
    assert (await anext(stream)).reuse == Reuse(mapped=4, copied=3)
    for token in (2, 3, 4):
        stream.put(Delta(id="a", tokens=(token,), completion_tokens=token))
    stream.put(Delta(id="a", finish="stop", completion_tokens=5))
    last = await anext(stream)
    assert (last.tokens, last.finish, last.reuse, last.completion_tokens) == ((2, 3, 4), "stop", None, 5)
    with pytest.raises(StopAsyncIteration):
        await anext(stream)
