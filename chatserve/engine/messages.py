"""What travels between an engine and its clients: tagged, frozen values, one batch of them a step."""

from __future__ import annotations

from typing import Literal

import msgspec

from chatserve.model.sampling import SamplingParams
from chatserve.model.spec import ModelSpec

Finish = Literal["stop", "length", "refused", "failed"]


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A client is there; answered by Ready as soon as the engine is."""


class Gone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The client of this name has ended without a word: its requests end with it."""

    client: str


class Generate(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Ask for an answer. It belongs to its client until that sends a Stop, also where it has ended by itself.

    prompt: token ids, int32 little-endian.
    tenant: prefixes are shared only inside one tenant.
    priority: lower runs first; among equals the earlier arrival.
    hold: the sender will end the answer with Stop (it watches for stop strings), so that a turn that ends by itself is
        recorded only when Stop says how much of it was kept.
    reuse: False computes the whole prompt, matching no recorded prefix and recording none (the oracle's way).
    """

    id: str
    prompt: bytes
    params: SamplingParams
    tenant: str = ""
    priority: int = 0
    hold: bool = False
    reuse: bool = True


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """End an answer now; its first `keep` tokens were kept (None: all that were generated). Twice is harmless."""

    id: str
    keep: int | None = None


class Flush(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Forget every recorded prefix and give free memory back; answered by Flushed."""

    ticket: int


class AskStats(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Answered by Stats."""

    ticket: int


class Delta(msgspec.Struct, frozen=True, kw_only=True, array_like=True, omit_defaults=True):
    """What one step brought one request. Travels without its fields' names: there is one a token.

    tokens: new ids, without the end token that finished the answer.
    finish: why the answer ended; None while it goes on.
    cached: prompt tokens that were not computed (with the first delta, else None).
    completion_tokens: tokens generated so far, an end token counted (what usage reports).
    error: with "refused" (never run: it cannot fit) and "failed", a sentence for the user.
    """

    id: str
    tokens: tuple[int, ...] = ()
    finish: Finish | None = None
    cached: int | None = None
    completion_tokens: int = 0
    error: str | None = None


class Deltas(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Everything one step brought, for all streams of one client."""

    items: list[Delta]


class EngineLimits(msgspec.Struct, frozen=True, kw_only=True):
    """max_tokens: prompt and answer together that one request can ever hold (context and KV memory)."""

    max_tokens: int
    max_running: int
    priorities: tuple[int, int] = (-100, 100)


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The model is loaded and the engine answers."""

    spec: ModelSpec
    limits: EngineLimits


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """Measured, never assumed. Bytes and tokens of KV memory; counters since the engine's start.

    physical = free + held; held = private + shared (a shared chunk counted once). mapped counts a chunk once for every
    address it is mapped at.
    """

    running: int
    waiting: int
    chunk_tokens: int
    physical_bytes: int
    free_bytes: int
    private_bytes: int
    shared_bytes: int
    mapped_bytes: int
    limit_bytes: int
    recorded_tokens: int
    recorded_nodes: int
    slots: int
    slots_in_use: int
    slots_warm: int
    steps: int
    prompt_tokens: int
    cached_tokens: int
    computed_tokens: int
    generated_tokens: int
    stalls: int
    takeovers: int
    matches: int
    creates: int
    copies: int
    preemptions: int
    evicted_chunks: int
    driver_calls: int


class Stats(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    ticket: int
    stats: EngineStats


class Flushed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    ticket: int


ToEngine = Hello | Gone | Generate | Stop | Flush | AskStats
FromEngine = Ready | Deltas | Stats | Flushed
