"""Running vTensors: Create, Extend and Release (vTensor paper, section 5.4). Each act is all or nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vtensor.driver.base import DriverError, Fence, OutOfMemory
from vtensor.layout import KVLayout
from vtensor.operations import Operations, OutOfChunks
from vtensor.pool import Chunk, Slot, VTensor
from vtensor.warm import WarmSlots


class Running:
    """vtensors: those that someone writes into.

    evict: frees a recorded chunk that nobody runs on; False when there is none.
    """

    def __init__(self, operations: Operations, layout: KVLayout, warm: WarmSlots, evict: Callable[[], bool]) -> None:
        self.vtensors: set[VTensor] = set()
        self._operations = operations
        self._layout = layout
        self._warm = warm
        self._evict = evict

    def create(self, rows: int, *, headroom: int = 0) -> VTensor:
        """Create: a vTensor with nothing in it and `rows` rows mapped.

        headroom: chunks that must be left to get for others. Raises OutOfSlots, OutOfChunks.
        """
        self.require(self._layout.chunks_for(rows) + headroom)
        vtensor = VTensor(self.slot(), [], shared_rows=0, rows=0)
        self.vtensors.add(vtensor)
        try:
            self.extend(vtensor, rows)
        except (OutOfChunks, DriverError):
            self.release(vtensor)
            raise
        return vtensor

    def extend(self, vtensor: VTensor, rows: int) -> None:
        """Extend: map chunks until `rows` rows are ready. Raises OutOfChunks, the vTensor being as it was."""
        assert vtensor in self.vtensors
        have, need = len(vtensor.chunks), self._layout.chunks_for(rows)
        assert need <= self._layout.slot_chunks, f"{rows} rows do not fit a slot of {self._layout.slot_tokens}"
        if need <= have:
            return
        self.require(need - have)
        chunks = self._operations.pAlloc(vtensor.slot, have, need - have, self._evict)
        try:
            self._operations.Map(vtensor.slot, have, chunks, writable=True)
        except DriverError as error:
            self._operations.pFree(chunks)
            raise shortage(error) from error
        vtensor.chunks += chunks
        vtensor.rows = need * self._layout.chunk_tokens

    def release(self, vtensor: VTensor, fence: Fence | None = None) -> None:
        """Release: chunks and slot go back to their sets; what is mapped stays until it is in the way.

        fence: the last work that was launched on the vTensor, if it may still be under way.
        """
        assert vtensor in self.vtensors, "released twice"
        self.guard(vtensor, fence)
        self.vtensors.remove(vtensor)
        self._operations.vFree(vtensor.slot)
        self._operations.pFree(vtensor.chunks)
        vtensor.chunks, vtensor.rows = [], 0

    def slot(self) -> Slot:
        """A free slot, or the warm one that was longest unused. Raises OutOfSlots."""
        self._warm.make_room()
        return self._operations.vAlloc()

    def guard(self, vtensor: VTensor, fence: Fence | None) -> None:
        """Unmap nothing of it before this work is over."""
        if fence is not None:
            self._operations.guard(vtensor.slot, fence)

    def require(self, chunks: int, matched: Sequence[Chunk] = ()) -> None:
        """Raises OutOfChunks when so many could not be had even by evicting all that nobody runs on: nothing is
        evicted in vain.

        matched: chunks about to be run on.
        """
        pset = self._operations.pset
        obtainable = pset.free + self._operations.limit - len(pset)
        if obtainable < chunks:
            obtainable = self._operations.limit - pset.in_use - sum(not chunk.in_use for chunk in matched)
        if obtainable < chunks:
            raise OutOfChunks(
                f"{chunks} chunks of {self._layout.chunk_tokens} tokens are needed and {obtainable} can be had; "
                f"the limit is {self._operations.limit}"
            )


def shortage(error: Exception) -> Exception:
    """A driver out of memory is a manager out of chunks: the caller may wait or preempt."""
    return OutOfChunks(str(error)) if isinstance(error, OutOfMemory) else error
