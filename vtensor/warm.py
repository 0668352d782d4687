"""Warm slots: idle recorded vTensors that are mapped still, extras that can be taken back without losing a chunk."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from vtensor.node import Node
from vtensor.operations import Operations
from vtensor.pool import VTensor


class WarmSlots:
    """Each belongs to the leaf whose path it maps (`Node.warm`); the chunks are the rTree's."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._leaves: OrderedDict[VTensor, Node] = OrderedDict()

    @property
    def leaves(self) -> Mapping[VTensor, Node]:
        """Least recently used first."""
        return self._leaves

    def keep(self, vtensor: VTensor, leaf: Node) -> None:
        """From now on the leaf's next turn can take this slot over."""
        assert leaf.warm is None
        leaf.warm = vtensor
        self._leaves[vtensor] = leaf

    def take(self, leaf: Node) -> VTensor:
        """For its next turn; the slot is the caller's."""
        vtensor = leaf.warm
        assert vtensor is not None
        leaf.warm = None
        del self._leaves[vtensor]
        return vtensor

    def touch(self, vtensor: VTensor) -> None:
        """It is used next, its owner says."""
        self._leaves.move_to_end(vtensor)

    def let_go(self, vtensor: VTensor) -> None:
        """Its leaf knows of it no more."""
        del self._leaves[vtensor]
        self._operations.vFree(vtensor.slot)

    def make_room(self) -> None:
        """Give the least recently used slot back when no slot is free."""
        if self._operations.vset.free == 0 and self._leaves:
            vtensor, leaf = next(iter(self._leaves.items()))
            leaf.warm = None
            self.let_go(vtensor)
