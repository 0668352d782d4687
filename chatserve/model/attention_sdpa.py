"""Attention by torch's scaled_dot_product_attention, one sequence at a time: any device, any dtype.

Every sequence is sliced to its own rows first, so nothing past a sequence's end is ever read. The query heads that
share a KV head are laid beside each other, so K and V are read where they lie and never repeated.
"""

from __future__ import annotations

from itertools import accumulate, groupby
from typing import Protocol

import torch
from torch.nn.functional import scaled_dot_product_attention

from chatserve.model.attention_split import SPLIT_FROM, SplitDecodes
from chatserve.model.batch import Batch

QUERY_BLOCK = 512
"""Query rows attended at once; bounds the mask to this many rows of the context's length."""


class SdpaKernel:
    """See the module. kv: the arena [slots, rows, layers, 2, kv_heads, head_dim]."""

    def __init__(self, kv: torch.Tensor) -> None:
        self._kv = kv

    def step(self, batch: Batch) -> SdpaStep:
        return SdpaStep(self._kv, batch)


class Part(Protocol):
    """Some consecutive rows of the step, all of one sequence."""

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        """query: all rows of the step [rows, heads, head_dim]. Returns this part's [part rows, heads, head_dim]."""
        ...


class SdpaStep:
    """One step: the parts of its batch, in row order."""

    def __init__(self, kv: torch.Tensor, batch: Batch) -> None:
        self._parts: list[Part] = []
        firsts = accumulate(batch.counts, initial=0)
        sequences = list(zip(batch.slots, batch.starts, batch.counts, firsts, strict=False))
        on_cpu = kv.device.type == "cpu"
        for long, run in groupby(sequences, key=lambda each: on_cpu and each[2] == 1 and each[1] >= SPLIT_FROM):
            if long:
                slots, starts, _, places = zip(*run, strict=True)
                lengths = [start + 1 for start in starts]
                self._parts.append(SplitDecodes(kv, slots, lengths, places))
            else:
                for slot, start, count, first in run:
                    self._parts += parts_of(kv, slot, start, count, first)

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        outputs = [part.attend(layer, query, scale) for part in self._parts]
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def parts_of(kv: torch.Tensor, slot: int, start: int, count: int, first: int) -> list[Part]:
    """One sequence: its one new row, or its prompt rows in blocks."""
    if count == 1:
        return [DecodePart(kv, slot, start + 1, first)]
    return [
        PromptPart(kv, slot, start + offset, min(QUERY_BLOCK, count - offset), first + offset)
        for offset in range(0, count, QUERY_BLOCK)
    ]


class DecodePart:
    """One new row: the group of query heads becomes the query rows of its KV head."""

    def __init__(self, kv: torch.Tensor, slot: int, length: int, row: int) -> None:
        layers = kv[slot : slot + 1, :length].permute(2, 3, 0, 4, 1, 5).unbind(0)
        self._layers = [both.unbind(0) for both in layers]
        self._row = row

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        keys, values = self._layers[layer]
        kv_heads, head_dim = keys.shape[1], keys.shape[3]
        grouped = query[self._row].reshape(1, kv_heads, -1, head_dim)
        return scaled_dot_product_attention(grouped, keys, values, scale=scale).reshape(1, -1, head_dim)


class PromptPart:
    """Several new rows after `start` earlier ones; each sees the rows up to its own."""

    def __init__(self, kv: torch.Tensor, slot: int, start: int, count: int, row: int) -> None:
        self._layers = kv[slot, : start + count].permute(1, 2, 3, 0, 4).unsqueeze(3).unbind(0)
        self._rows = slice(row, row + count)
        self._mask = None
        if start:
            seen = torch.ones(count, start + count, dtype=torch.bool, device=kv.device)
            self._mask = seen.tril(start)

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        keys, values = self._layers[layer].unbind(0)
        rows = query[self._rows]
        count, heads, head_dim = rows.shape
        kv_heads = keys.shape[0]
        grouped = rows.reshape(count, kv_heads, -1, head_dim).permute(1, 2, 0, 3)
        group = heads // kv_heads
        output = scaled_dot_product_attention(
            grouped,
            keys.expand(-1, group, -1, -1),
            values.expand(-1, group, -1, -1),
            attn_mask=self._mask,
            is_causal=self._mask is None,
            scale=scale,
        )
        return output.permute(2, 0, 1, 3).reshape(count, heads, head_dim)
