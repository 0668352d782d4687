"""Attention by the FlashAttention-2 inside torch: CUDA, half precision, all sequences of a step in one call.

The kernel sees a layer's K (or V) of the whole arena as one flat run of rows; a sequence is addressed by the first row
of its slot, and its length is given apart. It loads no row past a sequence's length.
"""

from __future__ import annotations

import itertools

import torch

from chatserve.model.batch import Batch
from chatserve.model.kv_rows import KVRows


class FlashKernel:
    """kv: the arena [slots, rows, layers, 2, kv_heads, head_dim], a slot's stride a whole number of row strides."""

    def __init__(self, kv: torch.Tensor) -> None:
        rows = KVRows(kv)
        self._device = kv.device
        self._rows_between_slots, rest = divmod(kv.stride(0), kv.stride(1))
        assert rest == 0, "a slot must begin a whole number of rows after the one before"
        self._keys = [self._flat(keys) for keys in rows.keys]
        self._values = [self._flat(values) for values in rows.values]

    @staticmethod
    def supports(kv: torch.Tensor) -> bool:
        """Whether this kernel can read such an arena."""
        half = kv.dtype in (torch.float16, torch.bfloat16)
        head_dim = kv.shape[-1]
        aligned = kv.shape[0] == 1 or kv.stride(0) % kv.stride(1) == 0
        return kv.device.type == "cuda" and half and head_dim % 8 == 0 and head_dim <= 256 and aligned

    def step(self, batch: Batch) -> FlashStep:
        return FlashStep(self._keys, self._values, self._rows_between_slots, batch, self._device)

    def _flat(self, layer: torch.Tensor) -> torch.Tensor:
        """[slots, rows, kv_heads, head_dim] -> [all rows, kv_heads, head_dim] over the same memory."""
        slots, rows, kv_heads, head_dim = layer.shape
        count = (slots - 1) * self._rows_between_slots + rows
        return layer.as_strided((count, kv_heads, head_dim), layer.stride()[1:])


class FlashStep:
    """One step: where each sequence's queries and slot begin, and how long it is."""

    def __init__(
        self,
        keys: list[torch.Tensor],
        values: list[torch.Tensor],
        rows_between_slots: int,
        batch: Batch,
        device: torch.device,
    ) -> None:
        self._keys = keys
        self._values = values
        lengths = [start + count for start, count in zip(batch.starts, batch.counts, strict=True)]
        firsts = [slot * rows_between_slots for slot in batch.slots]
        # The operator wants one entry more than sequences; with the lengths given apart, the last is not read.
        self._slot_rows = torch.tensor([*firsts, firsts[-1]], dtype=torch.int32, device=device)
        queries = list(itertools.accumulate(batch.counts, initial=0))
        self._query_rows = torch.tensor(queries, dtype=torch.int32, device=device)
        self._lengths = torch.tensor(lengths, dtype=torch.int32, device=device)
        self._most_new = max(batch.counts)
        self._longest = max(lengths)

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        output: torch.Tensor = torch.ops.aten._flash_attention_forward(
            query,
            self._keys[layer],
            self._values[layer],
            self._query_rows,
            self._slot_rows,
            self._most_new,
            self._longest,
            0.0,
            self._most_new > 1,  # causal; a single new row sees all of its slot either way
            False,
            scale=scale,
            seqused_k=self._lengths,
        )[0]
        return output
