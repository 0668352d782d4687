"""Decode rows of long sequences on the CPU: each sequence is attended in pieces, all at once, which are then joined.

torch's kernel gives every KV head to one thread, so three heads on two threads take as long as four, and each walks all
rows by itself. Pieces are equal work for any number of threads, and short enough to stay near the processor from one
head to the next. A piece's result is weighted by its share of the softmax (its logsumexp).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

PIECES = 8
SPLIT_FROM = 512
"""Rows; shorter sequences are not worth the joining."""


class SplitDecodes:
    """The decode rows of some sequences.

    kv: the arena [slots, rows, layers, 2, kv_heads, head_dim].  slots, lengths: of each sequence, the new row counted.
    rows: where in the step each sequence's one row is.
    """

    def __init__(self, kv: torch.Tensor, slots: Sequence[int], lengths: Sequence[int], rows: Sequence[int]) -> None:
        self._rows = torch.tensor(rows)
        self._heads = kv.shape[4]
        self._pieces = [pieces(kv, slot, length) for slot, length in zip(slots, lengths, strict=True)]
        self._masks = [overlap(length, kv.dtype) for length in lengths]

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        """query: all rows of the step [rows, heads, head_dim]. Returns [sequences, heads, head_dim]."""
        head_dim = query.shape[-1]
        grouped = query[self._rows].view(len(self._pieces), 1, self._heads, -1, head_dim)
        outputs, weights = [], []
        for each, kv, mask in zip(grouped.expand(-1, PIECES, -1, -1, -1), self._pieces, self._masks, strict=True):
            keys, values = kv[layer]
            output, weight = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                each, keys, values, attn_mask=mask, scale=scale
            )
            outputs.append(output)
            weights.append(weight)
        share = torch.stack(weights).softmax(dim=1)  # [sequences, PIECES, kv_heads, group]
        joined = (torch.stack(outputs) * share.unsqueeze(-1)).sum(dim=1)
        return joined.reshape(len(self._pieces), -1, head_dim)


def pieces(kv: torch.Tensor, slot: int, length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Each layer's K and V of one sequence as [PIECES, kv_heads, piece, head_dim].

    A piece begins every length // PIECES rows; all are as long as the last has to be, so that they may overlap.
    """
    apart = length // PIECES
    piece = length - (PIECES - 1) * apart
    rows = kv[slot, :length]
    shape = (*rows.shape[1:3], PIECES, rows.shape[3], piece, rows.shape[4])
    row, layer, side, head, dim = rows.stride()
    view = rows.as_strided(shape, (layer, side, apart * row, head, row, dim), rows.storage_offset())
    return [(both[0], both[1]) for both in view.unbind(0)]


def overlap(length: int, dtype: torch.dtype) -> torch.Tensor | None:
    """What hides from each piece the rows that the next one has too: [PIECES, 1, 1, piece], added to the scores."""
    apart = length // PIECES
    piece = length - (PIECES - 1) * apart
    if piece == apart:
        return None
    mask = torch.zeros(PIECES, 1, 1, piece, dtype=dtype)
    mask[:-1, ..., apart:] = float("-inf")
    return mask
