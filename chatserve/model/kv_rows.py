"""The arena as each layer sees it, and where a step's new rows go."""

from __future__ import annotations

import torch

from chatserve.model.step import StepRows


class KVRows:
    """Strided views of the arena [slots, rows, layers, 2, kv_heads, head_dim], one K and one V for each layer."""

    def __init__(self, kv: torch.Tensor) -> None:
        self.arena = kv
        self.keys = kv[:, :, :, 0].unbind(2)
        self.values = kv[:, :, :, 1].unbind(2)


class RowWriter:
    """Writes the new rows of one step, of all its sequences at once, into their slots.

    Nothing else of the arena is touched.
    """

    def __init__(self, kv: KVRows, rows: StepRows) -> None:
        self._kv = kv
        self._places = (rows.slots, rows.positions)

    def write(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> None:
        """key, value: [rows, kv_heads, head_dim]."""
        self._kv.keys[layer].index_put_(self._places, key)
        self._kv.values[layer].index_put_(self._places, value)
