"""What memory knows, as the engine tells it: the same values, free of vtensor."""

from __future__ import annotations

from chatserve.engine import messages
from vtensor import prefix, reuse


def tell_reuse(found: reuse.Reuse) -> messages.Reuse:
    return messages.Reuse(found.taken_over, found.mapped, found.copied, found.promoted, _tell_stop(found.stop))


def tell_prefix(memory: prefix.PrefixMemory) -> messages.PrefixMemory:
    return messages.PrefixMemory(
        tokens=memory.tokens,
        recorded_tokens=memory.recorded,
        physical_bytes=memory.bytes(memory.physical_chunks),
        private_bytes=memory.bytes(memory.physical_chunks - memory.shared_chunks),
        shared_bytes=memory.bytes(memory.shared_chunks),
        mapped={slot: memory.bytes(chunks) for slot, chunks in memory.mapped.items()},
        warm=memory.warm,
        stop=_tell_stop(memory.stop),
    )


def _tell_stop(stop: reuse.Stop | None) -> messages.ReuseStop | None:
    if stop is None:
        return None
    return messages.ReuseStop(stop.at, stop.why.value, stop.asked, stop.found)
