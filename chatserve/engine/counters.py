"""What the engine has done since its start."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from chatserve.engine.messages import EngineStats
from chatserve.engine.scheduler import Scheduler
from vtensor.reuse import Reuse, Why
from vtensor.stats import MemoryStats


@dataclass(slots=True)
class Counters:
    """stalls: steps of a running request that waited for a mapping.

    prompt_tokens: of admitted requests, once each; the *_tokens after it: those found, by where they came from.
    stops: why no more was found.  computed_tokens: rows of all steps.
    """

    steps: int = 0
    prompt_tokens: int = 0
    taken_over_tokens: int = 0
    mapped_tokens: int = 0
    copied_tokens: int = 0
    promoted_tokens: int = 0
    stops: Counter[Why] = field(default_factory=Counter)
    computed_tokens: int = 0
    generated_tokens: int = 0
    stalls: int = 0
    preemptions: int = 0

    def note_prompt(self, tokens: int, found: Reuse) -> None:
        """A request was admitted for the first time."""
        self.prompt_tokens += tokens
        self.taken_over_tokens += found.taken_over
        self.mapped_tokens += found.mapped
        self.copied_tokens += found.copied
        self.promoted_tokens += found.promoted
        if found.stop is not None:
            self.stops[found.stop.why] += 1

    @property
    def cached_tokens(self) -> int:
        return self.taken_over_tokens + self.mapped_tokens + self.copied_tokens + self.promoted_tokens


def engine_stats(memory: MemoryStats, counters: Counters, scheduler: Scheduler) -> EngineStats:
    """Memory and counters as one value for the outside."""
    return EngineStats(
        running=len(scheduler.running),
        waiting=len(scheduler.waiting),
        chunk_tokens=memory.chunk_tokens,
        physical_bytes=memory.bytes(memory.physical_chunks),
        free_bytes=memory.bytes(memory.free_chunks),
        private_bytes=memory.bytes(memory.private_chunks),
        shared_bytes=memory.bytes(memory.shared_chunks),
        mapped_bytes=memory.bytes(memory.mapped_chunks),
        limit_bytes=memory.bytes(memory.limit_chunks),
        recorded_tokens=memory.recorded_tokens,
        recorded_nodes=memory.recorded_nodes,
        slots=memory.slots,
        slots_in_use=memory.slots_in_use,
        slots_warm=memory.slots_warm,
        steps=counters.steps,
        prompt_tokens=counters.prompt_tokens,
        cached_tokens=counters.cached_tokens,
        computed_tokens=counters.computed_tokens,
        generated_tokens=counters.generated_tokens,
        stalls=counters.stalls,
        takeovers=memory.takeovers,
        matches=memory.matches,
        creates=memory.creates,
        copies=memory.copies,
        preemptions=counters.preemptions,
        evicted_chunks=memory.evicted_chunks,
        given_back_bytes=memory.bytes(memory.given_back_chunks),
        driver_calls=memory.driver_calls,
        taken_over_tokens=counters.taken_over_tokens,
        mapped_tokens=counters.mapped_tokens,
        copied_tokens=counters.copied_tokens,
        promoted_tokens=counters.promoted_tokens,
        **{f"stops_{why.value}": counters.stops[why] for why in Why},
    )
