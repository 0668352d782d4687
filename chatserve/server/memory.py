"""A conversation's KV memory: what there is of it now, and bringing it back before its next turn."""

from __future__ import annotations

import uuid
from array import array
from typing import Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from chatserve.engine.messages import Generate, PrefixMemory
from chatserve.engine.port import EngineDied, EnginePort, EngineUnavailable
from chatserve.model.sampling import SamplingParams
from chatserve.server.asks import read_salt
from chatserve.server.disconnect import until_disconnect
from chatserve.server.errors import Unavailable
from chatserve.server.explaining import Explain
from chatserve.server.fields import Fields
from chatserve.server.running import RunningTurns
from chatserve.server.tenants import tenant_of
from chatserve.server.visit import visit_of
from chatserve.server.wire import Stopped
from chatserve.text.tokenizer import Tokenizer
from sessions.catalogue import KnownIds
from sessions.turns import pack_ids


class FindIds(Protocol):
    """How a kind of conversation is found."""

    async def __call__(self, request: Request, tenant: str) -> KnownIds:
        """The stored ids of the one that a request names. Raises ApiError."""


class SlotShare(msgspec.Struct, frozen=True):
    slot: int
    bytes: int


class ConversationMemory(msgspec.Struct, frozen=True, kw_only=True):
    """physical = private + shared, each chunk counted once; mapped: a chunk counts at every address.

    tokens: stored of the conversation.  recorded_tokens: those of them that the next turn need not compute.
    evicted_tokens: those that had been recorded and were given up.
    warm: the next turn takes over a slot without a call.  stopped: why no more is recorded.
    """

    object: str = "conversation.memory"
    tokens: int
    recorded_tokens: int
    evicted_tokens: int
    physical_bytes: int
    private_bytes: int
    shared_bytes: int
    mapped: tuple[SlotShare, ...]
    warm: bool
    stopped: Stopped | None


class Memory:
    """The routes of one kind of conversation."""

    def __init__(self, engine: EnginePort, tokenizer: Tokenizer, running: RunningTurns, find: FindIds) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._running = running
        self._find = find

    async def get(self, request: Request) -> Response:
        """As it is now. Looking keeps nothing from being evicted."""
        known = await self._find(request, tenant_of(request))
        try:
            memory = await self._engine.prefix(_prefixes(request), pack_ids(known.ids))
        except EngineUnavailable:
            raise _no_engine() from None
        return self._reply(request, known.ids, memory)

    async def warm(self, request: Request) -> Response:
        """Have the next turn find its past in place; answers when it will, or when memory is too short for that.

        What is recorded is mapped at a slot; what is not is computed where nobody else wants to compute, and dropped
        where somebody wants its memory. Nothing is generated. Who leaves ends it, and once more costs nothing.
        """
        async for _ in request.stream():
            pass  # it says nothing
        self._running.check_open()
        known = await self._find(request, tenant_of(request))
        try:
            memory = await until_disconnect(request, self._warmed(_prefixes(request), known))
        except (EngineUnavailable, EngineDied):
            raise _no_engine() from None
        return self._reply(request, known.ids, memory)

    async def _warmed(self, tenant: str, known: KnownIds) -> PrefixMemory:
        packed = pack_ids(known.ids)
        memory = await self._engine.warm(tenant, packed)
        if memory.recorded_tokens >= len(known.ids) - 1:  # the last token of an answer is never computed
            return memory
        await self._compute(tenant, packed, known.conversation)
        return await self._engine.warm(tenant, packed)

    async def _compute(self, tenant: str, packed: bytes, label: str) -> None:
        info = self._engine.info
        if info is None:
            raise EngineUnavailable
        _, lowest = info.limits.priorities
        stream = self._engine.submit(
            Generate(
                id=uuid.uuid4().hex,
                prompt=packed,
                params=SamplingParams(max_tokens=1),
                tenant=tenant,
                priority=lowest + 1,
                warms=True,
                label=label,
            )
        )
        try:
            async for delta in stream:
                if delta.finish is not None:
                    break
        finally:
            stream.stop()

    def _reply(self, request: Request, ids: array[int], memory: PrefixMemory) -> Response:
        explain = Explain(self._tokenizer, ids, ids, shared=visit_of(request).caller.shares_prefixes)
        whole = memory.recorded_tokens >= len(ids) - 1
        stopped = None if whole else explain.stop(memory.stop)
        evicted = stopped is not None and stopped.why == "evicted"
        view = ConversationMemory(
            tokens=memory.tokens,
            recorded_tokens=memory.recorded_tokens,
            evicted_tokens=memory.tokens - memory.recorded_tokens if evicted else 0,
            physical_bytes=memory.physical_bytes,
            private_bytes=memory.private_bytes,
            shared_bytes=memory.shared_bytes,
            mapped=tuple(SlotShare(slot, size) for slot, size in memory.mapped.items()),
            warm=memory.warm,
            stopped=stopped,
        )
        return Response(msgspec.json.encode(view), media_type="application/json")


def _prefixes(request: Request) -> str:
    """The tenant whose prefixes a turn with this request's salt would reuse."""
    return visit_of(request).caller.prefixes(read_salt(Fields(request.query_params)))


def _no_engine() -> Unavailable:
    return Unavailable("The engine is not there to answer; try again shortly.", code="not_ready")
