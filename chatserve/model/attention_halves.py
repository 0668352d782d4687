"""Decode rows of long sequences on the CPU: each sequence is attended in two halves at once, then joined.

torch's kernel gives every KV head to one thread, so three heads on two threads take as long as four. Two halves of each
head are six equal pieces of work. A half's result is weighted by its share of the softmax (its logsumexp).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

HALVED_FROM = 512
"""Rows; shorter sequences are not worth the joining."""


class HalvedDecodes:
    """The decode rows of some sequences.

    kv: the arena [slots, rows, layers, 2, kv_heads, head_dim].  slots, lengths: of each sequence, the new row counted.
    rows: where in the step each sequence's one row is.
    """

    def __init__(self, kv: torch.Tensor, slots: Sequence[int], lengths: Sequence[int], rows: Sequence[int]) -> None:
        self._rows = torch.tensor(rows)
        self._heads = kv.shape[4]
        self._halves = [halves(kv, slot, length) for slot, length in zip(slots, lengths, strict=True)]
        self._masks = [overlap(length, kv.dtype) for length in lengths]

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        """query: all rows of the step [rows, heads, head_dim]. Returns [sequences, heads, head_dim]."""
        head_dim = query.shape[-1]
        grouped = query[self._rows].view(len(self._halves), 1, self._heads, -1, head_dim)
        outputs, weights = [], []
        for each, kv, mask in zip(grouped.expand(-1, 2, -1, -1, -1), self._halves, self._masks, strict=True):
            keys, values = kv[layer]
            output, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                each, keys, values, attn_mask=mask, scale=scale
            )
            outputs.append(output)
            weights.append(weight)
        share = torch.stack(weights).softmax(dim=1)  # [sequences, halves, kv_heads, group]
        joined = (torch.stack(outputs) * share.unsqueeze(-1)).sum(dim=1)
        return joined.reshape(len(self._halves), -1, head_dim)


def halves(kv: torch.Tensor, slot: int, length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Each layer's K and V of one sequence as [2, kv_heads, half, head_dim]; an odd length's middle row is in both."""
    half = (length + 1) // 2
    rows = kv[slot, :length]
    shape = (*rows.shape[1:3], 2, rows.shape[3], half, rows.shape[4])
    row, layer, side, head, dim = rows.stride()
    view = rows.as_strided(shape, (layer, side, (length - half) * row, head, row, dim), rows.storage_offset())
    return [(both[0], both[1]) for both in view.unbind(0)]


def overlap(length: int, dtype: torch.dtype) -> torch.Tensor | None:
    """What hides the middle row of an odd length from the second half: [2, 1, 1, half], added to the scores."""
    if length % 2 == 0:
        return None
    mask = torch.zeros(2, 1, 1, (length + 1) // 2, dtype=dtype)
    mask[1, ..., 0] = float("-inf")
    return mask
