"""An engine that says what a test tells it to, at the pace a test tells it to: an EnginePort without a model."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable, Collection, Sequence

from chatserve.engine.messages import (
    Delta,
    EngineLimits,
    EngineStats,
    Finish,
    Generate,
    MemoryPicture,
    PrefixMemory,
    Ready,
    Reuse,
    ReuseStop,
)
from chatserve.engine.picture import PictureNode, PictureRest
from chatserve.engine.port import EngineDied, EngineUnavailable
from chatserve.model.sampling import SamplingDefaults
from chatserve.model.spec import ModelSpec
from sessions.turns import unpack_ids

Script = Callable[[Generate], Sequence[int]]


def ready(*, vocab_size: int, end_ids: tuple[int, ...], max_tokens: int = 4096) -> Ready:
    spec = ModelSpec(
        name="scripted",
        layers=1,
        heads=1,
        kv_heads=1,
        head_dim=8,
        vocab_size=vocab_size,
        max_len=max_tokens,
        dtype="float32",
        end_ids=end_ids,
        defaults=SamplingDefaults(),
    )
    return Ready(spec=spec, limits=EngineLimits(max_tokens=max_tokens, max_running=64))


class ScriptedStream:
    """Holds the ids that nobody has read yet, merged, like the real one."""

    def __init__(self, engine: ScriptedEngine, request: Generate) -> None:
        self.request = request
        self.kept: int | None = None
        self.stopped = False
        self.largest_delta = 0
        self._engine = engine
        self._tokens: list[int] = []
        self.made = 0
        self._first = True
        self._finish: Finish | None = None
        self._error: str | None = None
        self._dead = False
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    def __aiter__(self) -> AsyncIterator[Delta]:
        return self

    async def __anext__(self) -> Delta:
        await self._news.wait()
        if self._dead:
            raise EngineDied
        if self.stopped:
            raise StopAsyncIteration
        self._news.clear()
        tokens, self._tokens = tuple(self._tokens), []
        self.largest_delta = max(self.largest_delta, len(tokens))
        first, self._first = self._first, False
        return Delta(
            id=self.request.id,
            tokens=tokens,
            finish=self._finish,
            reuse=self._engine.reused(self.request) if first else None,
            completion_tokens=self.made,
            error=self._error,
        )

    def stop(self, keep: int | None = None) -> None:
        if self.stopped:
            return
        self.stopped = True
        self.kept = keep
        self._task.cancel()
        self._news.set()
        self._engine.ended(self)

    def die(self) -> None:
        self._dead = True
        self._task.cancel()
        self._news.set()

    async def _run(self) -> None:
        async with self._engine.places:
            self._engine.running.add(self)
            await asyncio.sleep(self._engine.prefill)
            if self._engine.refusal:
                self._end("refused", self._engine.refusal)
                return
            for token in self._engine.script(self.request):
                if self._engine.pace is not None:
                    await asyncio.sleep(self._engine.pace)
                self.made += 1
                self._tokens.append(token)
                if self.made == self.request.params.max_tokens:
                    self._end("length")
                    return
                self._news.set()
            self.made += 1  # the end token
            self._end("stop")

    def _end(self, finish: Finish, error: str | None = None) -> None:
        self._finish, self._error = finish, error
        self._news.set()


class ScriptedEngine:
    """script: the ids of the answer to a request, an end token after them. pace: seconds a token, None all at once.

    nodes: what each tenant has in the rTree, as a picture shows it; pictured: who asked for one, and with what focus.
    prefill: seconds before the first token. refusal: what every request is refused with.
    """

    def __init__(self, info: Ready | None, script: Script, *, pace: float | None = 0.0, running: int = 64) -> None:
        self.info = info
        self.script = script
        self.pace = pace
        self.prefill = 0.0
        self.refusal: str | None = None
        self.alive = True
        self.places = asyncio.Semaphore(running)
        self.streams: list[ScriptedStream] = []
        self.running: set[ScriptedStream] = set()
        self.recorded: list[tuple[str, array[int]]] = []
        self.warmed: set[str] = set()
        self.nodes: dict[str, tuple[PictureNode, ...]] = {}
        self.pictured: list[tuple[str, set[str]]] = []
        self.flushes = 0
        self.started = asyncio.Event()
        self.closed = False
        self.start_gate = asyncio.Event()
        self.start_gate.set()

    @property
    def last(self) -> ScriptedStream:
        return self.streams[-1]

    def prompt_ids(self) -> array[int]:
        """The prompt of the last request."""
        return unpack_ids(self.last.request.prompt)

    async def start(self) -> None:
        await self.start_gate.wait()
        self.started.set()

    async def close(self, timeout: float) -> None:
        self.closed = timeout > 0

    def submit(self, request: Generate) -> ScriptedStream:
        if not self.alive:
            raise EngineUnavailable
        stream = ScriptedStream(self, request)
        self.streams.append(stream)
        return stream

    def die(self) -> None:
        self.alive = False
        for stream in self.streams:
            if not stream.stopped:
                stream.die()

    def reused(self, request: Generate) -> Reuse:
        cached = self.cached(request)
        prompt = unpack_ids(request.prompt)
        if not request.reuse:
            return Reuse(stop=ReuseStop(0, "reuse_off"))
        ended = cached == len(prompt) - 1
        why = "record_ends" if cached else "nothing_recorded"
        return Reuse(mapped=cached, stop=None if ended else ReuseStop(cached, why, prompt[cached]))

    def cached(self, request: Generate) -> int:
        """Like an engine's: the longest recorded prefix of the same tenant, at least one token left to compute."""
        prompt = unpack_ids(request.prompt)
        best = 0
        for tenant, ids in self.recorded if request.reuse else ():
            if tenant == request.tenant:
                best = max(best, common(prompt, ids))
        return min(best, len(prompt) - 1)

    def ended(self, stream: ScriptedStream) -> None:
        self.running.discard(stream)
        answer = array("i", list(self.script(stream.request))[: stream.kept])
        self.recorded.append((stream.request.tenant, unpack_ids(stream.request.prompt) + answer))

    async def stats(self) -> EngineStats:
        if not self.alive:
            raise EngineUnavailable
        figures = dict.fromkeys(EngineStats.__struct_fields__, 0)
        return EngineStats(**figures | {"running": len(self.running), "limit_bytes": 100, "private_bytes": 25})

    async def flush(self) -> None:
        if not self.alive:
            raise EngineUnavailable
        self.recorded.clear()
        self.flushes += 1

    async def prefix(self, tenant: str, tokens: bytes) -> PrefixMemory:
        if not self.alive:
            raise EngineUnavailable
        asked = unpack_ids(tokens)
        recorded = max((common(asked, ids) for owner, ids in self.recorded if owner == tenant), default=0)
        why = "record_ends" if recorded else "nothing_recorded"
        return PrefixMemory(
            tokens=len(asked),
            recorded_tokens=recorded,
            physical_bytes=recorded,
            private_bytes=recorded,
            shared_bytes=0,
            mapped={1: recorded} if recorded else {},
            warm=tenant in self.warmed,
            stop=None if recorded == len(asked) else ReuseStop(recorded, why, asked[recorded]),
        )

    async def warm(self, tenant: str, tokens: bytes) -> PrefixMemory:
        self.warmed.add(tenant)
        return await self.prefix(tenant, tokens)

    async def picture(self, tenant: str, most: int, focus: Collection[str] = ()) -> MemoryPicture:
        self.pictured.append((tenant, set(focus)))
        stats = await self.stats()
        nodes = self.nodes.get(tenant, ())
        others = sum(len(theirs) for owner, theirs in self.nodes.items() if owner != tenant)
        return MemoryPicture(
            stats=stats,
            chunk_bytes=64,
            device_total_bytes=None,
            device_free_bytes=None,
            nodes=nodes[:most],
            more=PictureRest(max(0, len(nodes) - most), 0),
            others=PictureRest(others, 64 * others),
        )


def common(left: array[int], right: array[int]) -> int:
    """How many tokens they begin with are the same."""
    same = next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), None)
    return min(len(left), len(right)) if same is None else same
