"""Attention by FlashAttention-3: Hopper GPUs, bfloat16, prompt rows and mixed steps, all sequences in one call.

The kernel takes the whole arena's K and V of a layer as its cache, and each sequence's slot as its index in it. It is
called as an operator, because the Python function around it costs more time than a short turn's attention.

It reads K and V in whole tiles of TILE rows, past a sequence's end too. So memory has to be mapped in multiples of
that, and the tile must be the one of causal attention: for queries of one row it would take another. What lies past
the end in the last tile gets no weight, but has to be finite: nothing times NaN is NaN.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from chatserve.model.batch import Batch
from chatserve.model.kv_rows import KVRows

Operator = Callable[..., Sequence[torch.Tensor]]
"""FlashAttention-3's forward, as PyTorch's dispatcher knows it; the output is the first of what it returns."""

TILE = 128
"""Rows of K and V that causal attention reads at once, for heads of 64 and 128; query rows of one work item, too."""
HEAD_DIMS = (64, 128)
PACKAGES = (("fa3_fwd_interface", "fa3_fwd"), ("flash_attn_interface", "flash_attn_3"))
"""Modules that register the operator when they are imported, and the namespace in which they do."""

SPLIT_ROWS = 1024
"""Of a past, the fewest rows worth a split: each split's output is written and read once more."""
MOST_SPLITS = 16


def find_operator() -> Operator | None:
    """The operator, where a package brings it."""
    for module, namespace in PACKAGES:
        try:
            importlib.import_module(module)
        except (ImportError, OSError):  # OSError: its library was built for another torch or CUDA
            continue
        packet: Any = getattr(getattr(torch.ops, namespace), "fwd", None)
        if packet is not None:
            operator: Operator = packet.default
            return operator
    return None


def plan_splits(counts: Sequence[int], lengths: Sequence[int], *, group: int, kv_heads: int, processors: int) -> int:
    """Parts that a long past is cut into, to keep the device busy. The kernel's own choice looks at the rows of a slot,
    not at a sequence's length.

    counts: new rows of each sequence.  lengths: all its rows, the new ones included.  group: query heads a KV head.
    """
    items = kv_heads * sum(-(-count * group // TILE) for count in counts)
    if items * 2 > processors:
        return 1
    return max(1, min(processors // items, max(lengths) // SPLIT_ROWS, MOST_SPLITS))


class Fa3Kernel:
    """kv: the arena [slots, rows, layers, 2, kv_heads, head_dim], of which a slot is mapped in multiples of TILE.

    heads: of a query.
    """

    def __init__(self, kv: torch.Tensor, operator: Operator, heads: int) -> None:
        self._kv = KVRows(kv)
        self._kv_heads = kv.shape[-2]
        self._group = heads // self._kv_heads
        self._operator = operator
        self._processors = torch.cuda.get_device_properties(kv.device).multi_processor_count

    @staticmethod
    def refuses(kv: torch.Tensor, chunk_tokens: int) -> str | None:
        """Why it cannot read such an arena, mapped `chunk_tokens` rows at a time; None if it can."""
        if kv.device.type != "cuda" or torch.cuda.get_device_capability(kv.device)[0] != 9:
            return "FlashAttention-3 needs a Hopper GPU"
        if kv.dtype != torch.bfloat16:
            return f"FlashAttention-3 is built for bfloat16, not {kv.dtype}"
        if kv.shape[-1] not in HEAD_DIMS:
            return f"FlashAttention-3 reads heads of {HEAD_DIMS}, not of {kv.shape[-1]}"
        if chunk_tokens % TILE:
            return f"FlashAttention-3 reads {TILE} rows at once, and chunks of {chunk_tokens} end between"
        return None

    def step(self, batch: Batch) -> Fa3Step:
        """See Kernel. Where each sequence's queries begin, its length and its slot are copied to the device at once."""
        counts = batch.counts
        lengths = [start + count for start, count in zip(batch.starts, counts, strict=True)]
        firsts = list(itertools.accumulate(counts, initial=0))
        numbers = torch.tensor([*firsts, *lengths, *batch.slots], dtype=torch.int32, pin_memory=True)
        on_device = numbers.to(self._kv.arena.device, non_blocking=True)
        parts = on_device.split_with_sizes([len(counts) + 1, len(counts), len(counts)])
        splits = plan_splits(counts, lengths, group=self._group, kv_heads=self._kv_heads, processors=self._processors)
        return Fa3Step(self._kv, self._operator, *parts, most_new=max(counts), splits=splits)

    def captured(self, firsts: torch.Tensor, lengths: torch.Tensor, slots: torch.Tensor, *, most_new: int) -> Fa3Step:
        """A step whose numbers are read when it is replayed: int32 [sequences + 1], [sequences], [sequences].

        most_new: rows of the step. The kernel splits a sequence as far as its length is worth it, up to what is said
        here, so this is as much as keeps the device busy if all rows are of one sequence.
        """
        items = self._kv_heads * -(-most_new * self._group // TILE)
        splits = max(1, min(self._processors // items, MOST_SPLITS))
        return Fa3Step(self._kv, self._operator, firsts, lengths, slots, most_new=most_new, splits=splits)


class Fa3Step:
    """One step. firsts: where each sequence's queries begin, and where the last one's end."""

    def __init__(
        self,
        kv: KVRows,
        operator: Operator,
        firsts: torch.Tensor,
        lengths: torch.Tensor,
        slots: torch.Tensor,
        *,
        most_new: int,
        splits: int,
    ) -> None:
        self._kv = kv
        self._operator = operator
        self._firsts = firsts
        self._lengths = lengths
        self._slots = slots
        self._most_new = max(2, most_new)  # at 1 it would compute without a mask, in larger tiles
        self._splits = splits

    def attend(self, layer: int, query: torch.Tensor, scale: float, output: torch.Tensor | None = None) -> torch.Tensor:
        """See StepAttention. output: where the step's rows are written; it has room for those before the first, too."""
        return self._operator(
            query,
            self._kv.keys[layer],
            self._kv.values[layer],
            out=output,
            cu_seqlens_q=self._firsts,
            seqused_k=self._lengths,
            max_seqlen_q=self._most_new,
            kv_batch_idx=self._slots,
            softmax_scale=scale,
            is_causal=True,
            num_splits=self._splits,
            pack_gqa=True,  # query heads that share K and V share work items: faster or as fast for any number of rows
        )[0]
