"""What travels between an engine and its clients: tagged, frozen values, one batch of them a step."""

from __future__ import annotations

from typing import Literal

import msgspec

from chatserve.engine.picture import PictureNode, PictureRest
from chatserve.model.sampling import SamplingParams
from chatserve.model.spec import ModelSpec

Finish = Literal["stop", "length", "refused", "failed", "dropped"]
StopWhy = Literal[
    "record_ends",
    "differs",
    "evicted",
    "flushed",
    "distrusted",
    "below_unit",
    "nothing_recorded",
    "reuse_off",
]
"""Why reuse ended before the last token; vtensor/reuse.py says what each means."""


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
    warms: the prompt is computed only to be recorded, and no token is generated. Dropped where another is preempted.
    label: what its vTensor is called in pictures once it is recorded; opaque. Empty: as what it goes on from.
    """

    id: str
    prompt: bytes
    params: SamplingParams
    tenant: str = ""
    priority: int = 0
    hold: bool = False
    reuse: bool = True
    warms: bool = False
    label: str = ""


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


class AskPrefix(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What is recorded of these tokens, int32 little-endian; answered by Prefix. Changes nothing."""

    ticket: int
    tenant: str
    tokens: bytes


class WarmPrefix(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Leave a warm slot for the next turn of a recorded conversation; answered by Prefix, how it is then."""

    ticket: int
    tenant: str
    tokens: bytes


class AskPicture(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What this tenant has recorded, at most so many nodes of it; answered by Picture. Changes nothing.

    focus: labels whose leaves are shown however long they were not used.
    """

    ticket: int
    tenant: str
    most: int
    focus: tuple[str, ...] = ()


class ReuseStop(msgspec.Struct, frozen=True, array_like=True):
    """Where reuse ended, and why: the token that was asked for there, and what was found in its place, if anything."""

    at: int
    why: StopWhy
    asked: int | None = None
    found: int | None = None


class Reuse(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """Prompt tokens that were not computed, by where they came from; stop: None when all but the last were reused."""

    taken_over: int = 0
    mapped: int = 0
    copied: int = 0
    promoted: int = 0
    stop: ReuseStop | None = None

    @property
    def tokens(self) -> int:
        return self.taken_over + self.mapped + self.copied + self.promoted


class Delta(msgspec.Struct, frozen=True, kw_only=True, array_like=True, omit_defaults=True):
    """What one step brought one request. Travels without its fields' names: there is one a token.

    tokens: new ids, without the end token that finished the answer.
    finish: why the answer ended; None while it goes on.
    reuse: prompt tokens that were not computed (with the first delta, else None).
    completion_tokens: tokens generated so far, an end token counted (what usage reports).
    error: with "refused" (never run: it cannot fit) and "failed", a sentence for the user.
    """

    id: str
    tokens: tuple[int, ...] = ()
    finish: Finish | None = None
    reuse: Reuse | None = None
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
    address it is mapped at. given_back counts what went back to the device.
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
    given_back_bytes: int
    driver_calls: int
    taken_over_tokens: int
    mapped_tokens: int
    copied_tokens: int
    promoted_tokens: int
    stops_record_ends: int
    stops_differs: int
    stops_evicted: int
    stops_flushed: int
    stops_distrusted: int
    stops_below_unit: int
    stops_nothing_recorded: int
    stops_reuse_off: int


class Stats(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    ticket: int
    stats: EngineStats


class Flushed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    ticket: int


class PrefixMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The KV memory of one conversation, now. physical = private + shared, each chunk counted once.

    tokens: asked for.  recorded_tokens: those of them that can be reused.
    shared: part of another record too, or run on now.  mapped: bytes by slot; a chunk counts at every address.
    warm: whether the next turn takes a slot over without a call.  stop: why no more is recorded; None when all is.
    """

    tokens: int
    recorded_tokens: int
    physical_bytes: int
    private_bytes: int
    shared_bytes: int
    mapped: dict[int, int]
    warm: bool
    stop: ReuseStop | None


class Prefix(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    ticket: int
    memory: PrefixMemory


class MemoryPicture(msgspec.Struct, frozen=True, kw_only=True):
    """All memory as figures, and one tenant's part of the rTree node by node, parents first.

    more: the tenant's nodes that are not among these.  others: those of all other tenants.
    device_total_bytes, device_free_bytes: what the device says of itself, whoever uses it; None where it says nothing.
    """

    stats: EngineStats
    chunk_bytes: int
    device_total_bytes: int | None
    device_free_bytes: int | None
    nodes: tuple[PictureNode, ...]
    more: PictureRest
    others: PictureRest


class Picture(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    ticket: int
    picture: MemoryPicture


ToEngine = Hello | Gone | Generate | Stop | Flush | AskStats | AskPrefix | WarmPrefix | AskPicture
FromEngine = Ready | Deltas | Stats | Flushed | Prefix | Picture
