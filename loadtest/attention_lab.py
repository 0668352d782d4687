"""Sequences in an arena, for kernels to read: mapped by a real manager, strided as the server has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from chatserve.model.batch import Batch
from vtensor.driver.registry import open_driver
from vtensor.layout import KVLayout
from vtensor.manager import Manager
from vtensor.view import arena_view

LAYERS = (32, 16, 8, 4, 2, 1)
MOST_ARENA_BYTES = 48 << 30
TILE = 128
HEADS = 32
HEAD_DIM = 128


@dataclass(frozen=True, slots=True)
class Case:
    """One batch: of each sequence, the rows it had before this step (`starts`) and those that are new (`counts`).

    heads: of a query.
    """

    starts: tuple[int, ...]
    counts: tuple[int, ...]
    kv_heads: int = 8
    heads: int = HEADS
    head_dim: int = HEAD_DIM

    @classmethod
    def even(cls, batch: int, start: int, count: int, kv_heads: int = 8) -> Case:
        """All sequences alike."""
        return cls((start,) * batch, (count,) * batch, kv_heads)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Rows of each sequence, the new ones included."""
        return tuple(start + count for start, count in zip(self.starts, self.counts, strict=True))

    @property
    def rows(self) -> int:
        """New rows of all sequences."""
        return sum(self.counts)

    @property
    def scale(self) -> float:
        return float(self.head_dim**-0.5)

    @property
    def flops(self) -> int:
        """Of causal attention in one layer: two products, each a multiplication and an addition."""
        pairs = sum(
            start * count + count * (count + 1) // 2 for start, count in zip(self.starts, self.counts, strict=True)
        )
        return 4 * self.heads * self.head_dim * pairs

    def kv_bytes(self, itemsize: int) -> int:
        """K and V of one layer, each read once."""
        return sum(self.lengths) * 2 * self.kv_heads * self.head_dim * itemsize


@dataclass(frozen=True, slots=True)
class Lab:
    """kv: the arena [slots, rows, layers, 2, kv_heads, head_dim], random where sequences are.  query: random.

    slots: of each sequence.  layers: of the arena, as many as fit.  chunk_tokens: rows mapped at a time.
    """

    kv: torch.Tensor
    query: torch.Tensor
    slots: tuple[int, ...]
    layers: int
    chunk_tokens: int

    def batch(self, case: Case) -> Batch:
        """The step that a kernel is asked for."""
        positions = [torch.arange(start, start + count) for start, count in zip(case.starts, case.counts, strict=True)]
        return Batch(
            token_ids=torch.zeros(case.rows, dtype=torch.int64),
            positions=torch.cat(positions),
            slots=self.slots,
            starts=case.starts,
            counts=case.counts,
            samples=(),
        )

    def contiguous(self, case: Case, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of one layer as plain tensors [sequences, rows, kv_heads, head_dim], for sequences of one length."""
        (length,) = set(case.lengths)
        keys, values = (torch.stack([self.kv[slot, :length, layer, side] for slot in self.slots]) for side in range(2))
        return keys, values


@contextmanager
def lab(case: Case, device: str) -> Iterator[Lab]:
    """The arena of a case, in bf16 on a GPU and in float32 on the CPU; its memory goes back at the end."""
    place = torch.device(device)
    dtype = torch.bfloat16 if place.type == "cuda" else torch.float32
    arguments = {"device": 0, "stream": torch.cuda.current_stream().cuda_stream} if place.type == "cuda" else {}
    driver = open_driver("cuda" if place.type == "cuda" else "host", **arguments)
    a_layer = case.kv_bytes(dtype.itemsize)
    layers = next(each for each in LAYERS if each * a_layer <= MOST_ARENA_BYTES) if place.type == "cuda" else 2
    layout = KVLayout.choose(
        layers=layers,
        kv_heads=case.kv_heads,
        head_dim=case.head_dim,
        itemsize=dtype.itemsize,
        granularity=driver.granularity,
        max_len=max(case.lengths),
        tile=TILE,
    )
    slots = len(case.counts)
    manager = Manager(driver, layout, slots=slots, limit=slots * layout.slot_chunks)
    try:
        vtensors = [manager.create(length) for length in case.lengths]
        kv = arena_view(layout, manager.arena, slots=manager.slots, dtype=dtype, device=driver.dlpack_device)
        for vtensor in vtensors:
            kv[vtensor.slot.index, : vtensor.rows].normal_()
        query = torch.randn(case.rows, case.heads, case.head_dim, dtype=dtype, device=place)
        yield Lab(kv, query, tuple(vtensor.slot.index for vtensor in vtensors), layers, layout.chunk_tokens)
        if place.type == "cuda":
            torch.cuda.synchronize()
    finally:
        manager.close()
