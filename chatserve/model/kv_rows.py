"""The arena as each layer sees it, and where a step's new rows go."""

from __future__ import annotations

import torch

from chatserve.model.batch import Batch


class KVRows:
    """Strided views of the arena [slots, rows, layers, 2, kv_heads, head_dim], one K and one V for each layer."""

    def __init__(self, kv: torch.Tensor) -> None:
        self.arena = kv
        self.keys = kv[:, :, :, 0].unbind(2)
        self.values = kv[:, :, :, 1].unbind(2)


class RowWriter:
    """Writes the new rows of one step, of all its sequences at once, into their slots.

    A token's row in its slot is its position. Nothing else of the arena is touched.
    """

    def __init__(self, rows: KVRows, batch: Batch) -> None:
        device = rows.arena.device
        slots = torch.repeat_interleave(torch.tensor(batch.slots), torch.tensor(batch.counts))
        self._rows = rows
        self._places = (slots.to(device), batch.positions.to(device))

    def write(self, layer: int, key: torch.Tensor, value: torch.Tensor) -> None:
        """key, value: [rows, kv_heads, head_dim]."""
        self._rows.keys[layer].index_put_(self._places, key)
        self._rows.values[layer].index_put_(self._places, value)
