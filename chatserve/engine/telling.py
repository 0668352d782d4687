"""What memory knows, as the engine tells it: the same values, free of vtensor."""

from __future__ import annotations

from chatserve.engine import messages
from chatserve.engine.memory import Seen
from chatserve.engine.picture import PictureNode, PictureRest
from vtensor import picture, prefix, reuse


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


def tell_picture(seen: Seen, stats: messages.EngineStats) -> messages.MemoryPicture:
    """stats: of the engine at that moment."""
    drawn, device = seen.picture, seen.device
    return messages.MemoryPicture(
        stats=stats,
        chunk_bytes=seen.stats.chunk_bytes,
        device_total_bytes=None if device is None else device.total,
        device_free_bytes=None if device is None else device.free,
        nodes=tuple(map(_tell_node, drawn.nodes)),
        more=PictureRest(drawn.more.nodes, seen.stats.bytes(drawn.more.chunks)),
        others=PictureRest(drawn.others.nodes, seen.stats.bytes(drawn.others.chunks)),
    )


def _tell_node(node: picture.PictureNode) -> PictureNode:
    return PictureNode(*node)  # field by field: mypy sees to it that they are the same


def _tell_stop(stop: reuse.Stop | None) -> messages.ReuseStop | None:
    if stop is None:
        return None
    return messages.ReuseStop(stop.at, stop.why.value, stop.asked, stop.found)
