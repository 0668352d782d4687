"""One step as the model sees it: its rows on the device, attention over slots, and the network that joins them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from chatserve.model.batch import Batch


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rows of one step on the device, sequence after sequence.

    ids, positions, slots: int64 [rows]. A token's row in its slot is its position.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    slots: torch.Tensor


class StepAttention(Protocol):
    """Attention for the rows of one step; made anew for each, shared by all layers."""

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        """query: [rows, heads, head_dim]; returns that shape. The K and V of these rows are in their slots already."""
        ...


class Kernel(Protocol):
    """One way to compute attention over the slots of an arena."""

    def step(self, batch: Batch) -> StepAttention:
        """Prepare what all layers of this step share."""
        ...


class Network(Protocol):
    """A model over one arena: computes rows, writing their K and V."""

    def logits(self, rows: StepRows, attention: StepAttention, sampled: torch.Tensor | None) -> torch.Tensor:
        """sampled: int64 [n], the rows whose logits are wanted; None: all of them. Returns [n, vocab]."""
        ...


class Weights(Protocol):
    """A loaded model that has no arena yet."""

    def over(self, kv: torch.Tensor) -> Network:
        """kv: the arena [slots, rows, layers, 2, kv_heads, head_dim], in the model's dtype and on its device."""
        ...
