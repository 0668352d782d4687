"""How what was found recorded becomes a running vTensor: by takeover of its warm slot, or mapped at a fresh one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from vtensor.driver.base import DriverError
from vtensor.layout import KVLayout
from vtensor.match import Match
from vtensor.node import Node, Tokens
from vtensor.operations import Operations, OutOfChunks, OutOfSlots
from vtensor.pool import Chunk, VTensor
from vtensor.reuse import Reuse, Stop, Why
from vtensor.running import Running, shortage
from vtensor.warm import WarmSlots


class Origin(Enum):
    """Where a vTensor's first rows came from."""

    CREATED = "created"
    MAPPED = "mapped"
    TAKEN_OVER = "taken over"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A vTensor for a request; its first `cached` rows are written already, and `reuse` says where they came from."""

    vtensor: VTensor
    origin: Origin
    reuse: Reuse

    @property
    def cached(self) -> int:
        return self.reuse.tokens


class Reusing:
    """Makes running vTensors of matches, and warm ones of leaves."""

    def __init__(self, operations: Operations, layout: KVLayout, running: Running, warm: WarmSlots) -> None:
        self._operations = operations
        self._layout = layout
        self._running = running
        self._warm = warm

    def take_over(self, leaf: Node, match: Match, new_rows: int) -> Admitted:
        """In the slot where it is mapped still. Raises OutOfChunks, all being as it was."""
        vtensor = self._warm.take(leaf)
        self._running.vtensors.add(vtensor)
        recorded = list(vtensor.chunks)
        for chunk in recorded:
            self._operations.pset.take(chunk)
        try:
            self._running.extend(vtensor, vtensor.shared_rows + new_rows)
        except (OutOfChunks, DriverError):
            self._running.vtensors.remove(vtensor)
            self._operations.pFree(recorded)
            self._warm.keep(vtensor, leaf)
            raise
        return Admitted(vtensor, Origin.TAKEN_OVER, Reuse(taken_over=match.length, stop=match.stop))

    def map(self, match: Match, tokens: Tokens, new_rows: int) -> Admitted:
        """At a fresh slot: whole chunks read-only, the used rows of the last one copied. Raises OutOfSlots,
        OutOfChunks.
        """
        try:
            return self._map(match.chunks, match.length, new_rows, match.stop)
        except OutOfChunks:
            whole = match.length // self._layout.chunk_tokens
            at = whole * self._layout.chunk_tokens
            if match.length == at:
                raise
            # Holding the chunk that is copied from may be what is one too many.
            return self._map(match.chunks[:whole], at, new_rows, Stop(at, Why.BELOW_UNIT, int(tokens[at])))

    def warm(self, leaf: Node, path: list[Chunk]) -> bool:
        """Map an idle leaf's path at a slot, for its next turn to take over; takes no chunk. False where someone may
        be writing into its last chunk. Raises OutOfSlots, OutOfChunks.
        """
        if leaf.warm is not None:
            self._warm.touch(leaf.warm)
            return True
        whole, tail = divmod(leaf.end, self._layout.chunk_tokens)
        if tail and path[whole].references > 1:
            return False
        slot = self._running.slot()
        try:
            self._operations.Map(slot, 0, path[:whole], writable=False)
            self._operations.Map(slot, whole, path[whole:], writable=True)
        except DriverError as error:
            self._operations.vFree(slot)
            raise shortage(error) from error
        rows = len(path) * self._layout.chunk_tokens
        self._warm.keep(VTensor(slot, path, shared_rows=leaf.end, rows=rows), leaf)
        return True

    def _map(self, chunks: list[Chunk], length: int, new_rows: int, stop: Stop | None) -> Admitted:
        whole, tail = divmod(length, self._layout.chunk_tokens)
        for chunk in chunks:
            self._operations.pset.take(chunk)
        source = chunks[whole:]
        try:
            slot = self._running.slot()
        except OutOfSlots:
            self._operations.pFree(chunks)
            raise
        mapped = whole * self._layout.chunk_tokens
        vtensor = VTensor(slot, chunks[:whole], shared_rows=length, rows=mapped)
        self._running.vtensors.add(vtensor)
        try:
            self._operations.Map(slot, 0, vtensor.chunks, writable=False)
            self._running.extend(vtensor, length + new_rows)
            if tail:
                self._operations.copy_rows(slot, whole, source[0], tail)
        except (OutOfChunks, DriverError) as error:
            self._running.release(vtensor)
            raise shortage(error) from error
        finally:
            self._operations.pFree(source)
        return Admitted(vtensor, Origin.MAPPED, Reuse(mapped=mapped, copied=tail, stop=stop))
