"""Decode attention over slots: checked, timed beside FlashAttention-3 on the same slots, and tuned."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import random
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError

from chatserve.model.attention_decode import DecodeKernel, DecodeTiling
from loadtest.gpu_clock import copies, floor_us, microseconds, relative_error

HEADS = 32
HEAD_DIM = 128
SCALE = HEAD_DIM**-0.5
FLASH = "fa3_fwd_interface"


@dataclass(frozen=True)
class Row:
    """A decode step of so many sequences, of `context` tokens or of different lengths up to it."""

    batch: int
    context: int
    kv_heads: int
    ragged: bool = False

    @property
    def name(self) -> str:
        return f"{self.batch} x {'64...' if self.ragged else ''}{self.context}, {self.kv_heads} KV heads"

    @property
    def lengths(self) -> list[int]:
        if not self.ragged:
            return [self.context] * self.batch
        return random.Random(0).choices(range(64, self.context + 1), k=self.batch)

    @property
    def bytes(self) -> int:
        return sum(self.lengths) * self.kv_heads * HEAD_DIM * 4


ROWS = [
    Row(1, 1024, 8),
    Row(1, 16384, 8),
    Row(8, 4096, 8),
    Row(32, 4096, 8),
    Row(64, 1024, 8),
    Row(64, 2048, 8),
    Row(256, 1024, 8),
    Row(16, 8192, 4),
    Row(16, 8192, 1),
    Row(64, 4096, 8, ragged=True),
]


class Step:
    """One row's arena, its layers in turn so that none is in the cache, and what a step over it needs."""

    def __init__(self, row: Row) -> None:
        layers = copies(row.bytes, most=32)
        self.row = row
        self.kv = torch.empty(
            row.batch, row.context + 64, layers, 2, row.kv_heads, HEAD_DIM, dtype=torch.bfloat16, device="cuda"
        ).normal_()
        self.query = torch.randn(row.batch, HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
        self.slots = torch.tensor(random.Random(1).sample(range(row.batch), row.batch), device="cuda")
        self.lengths = torch.tensor(row.lengths, device="cuda")
        self.layers = range(layers)

    def ours(self, chosen: DecodeTiling | None = None) -> float:
        kernel = DecodeKernel(self.kv, HEADS, most_rows=self.row.batch, chosen=chosen)
        plan = kernel.plan(self.slots, self.lengths)
        calls = [partial(kernel.attend, plan, layer, self.query, SCALE) for layer in self.layers]
        return microseconds(calls)

    def planning(self) -> float:
        kernel = DecodeKernel(self.kv, HEADS, most_rows=self.row.batch)
        return microseconds([lambda: kernel.plan(self.slots, self.lengths)])

    def flash(self, flash: Any) -> float:
        query = self.query.unsqueeze(1)
        slots, lengths = self.slots.int(), self.lengths.int()
        calls = [
            partial(
                flash.flash_attn_with_kvcache,
                query,
                self.kv[:, :, layer, 0],
                self.kv[:, :, layer, 1],
                cache_seqlens=lengths,
                cache_batch_idx=slots,
                causal=True,
            )
            for layer in self.layers
        ]
        return microseconds(calls)


def check_attention() -> dict[str, float]:
    """The relative error of every row's shape, with NaN after each sequence, by four of its sequences."""
    errors = {}
    for row in ROWS:
        kv = torch.full(
            (row.batch, row.context + 64, 1, 2, row.kv_heads, HEAD_DIM),
            float("nan"),
            dtype=torch.bfloat16,
            device="cuda",
        )
        for slot, length in enumerate(row.lengths):
            kv[slot, :length].normal_()
        query = torch.randn(row.batch, HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
        kernel = DecodeKernel(kv, HEADS, most_rows=row.batch)
        numbers = torch.arange(row.batch, device="cuda")
        output = kernel.attend(kernel.plan(numbers, torch.tensor(row.lengths, device="cuda")), 0, query, SCALE)
        worst = 0.0
        for sequence in range(0, row.batch, max(1, row.batch // 4)):
            length = row.lengths[sequence]
            keys, values = kv[sequence, :length, 0].float().repeat_interleave(HEADS // row.kv_heads, dim=2).unbind(1)
            scores = torch.einsum("hd,nhd->hn", query[sequence].float(), keys) * SCALE
            expected = torch.einsum("hn,nhd->hd", scores.softmax(-1), values)
            worst = max(worst, relative_error(output[sequence], expected))
        errors[f"attention {row.name}"] = worst if output.isfinite().all() else float("nan")
    return errors


def time_attention() -> dict[str, dict[str, float | str]]:
    """Each row beside its floor and FlashAttention-3."""
    flash = importlib.import_module(FLASH) if importlib.util.find_spec(FLASH) else None
    figures: dict[str, dict[str, float | str]] = {}
    for row in ROWS:
        step = Step(row)
        figures[row.name] = {
            "floor": round(floor_us(row.bytes), 1),
            "ours": round(step.ours(), 1),
            "plan_a_step": round(step.planning(), 1),
            "fa3": round(step.flash(flash), 1) if flash else f"no module {FLASH}",
        }
    return figures


def tune_attention() -> dict[str, dict[str, list[str]]]:
    """The five fastest tilings of each row, and what could not be compiled."""
    shapes = [(64, 4, 3, 3), (64, 4, 4, 2), (32, 2, 4, 4), (32, 2, 3, 5), (32, 2, 5, 4), (64, 2, 3, 3)]
    wide = [(128, 8, 3, 1), (64, 8, 4, 2), (128, 8, 2, 2), (64, 4, 3, 2), (32, 4, 5, 2), (32, 2, 4, 4)]
    best: dict[str, dict[str, list[str]]] = {}
    for row in ROWS:
        step, timed, refused = Step(row), [], []
        tilings = shapes if row.kv_heads > 1 else wide
        waves = (2, 3) if row.ragged else (2,)
        ways = (False, True) if row.batch <= 16 else (False,)
        for (tile, warps, stages, programs), rounds, apart in itertools.product(tilings, waves, ways):
            one = DecodeTiling(tile=tile, warps=warps, stages=stages, programs=programs, waves=rounds, apart=apart)
            try:
                timed.append((step.ours(one), one))
            except (CompilationError, OutOfResources, PTXASError) as error:
                refused.append(f"{one}: {type(error).__name__} {str(error)[:80]}")
        timed.sort(key=lambda pair: pair[0])
        best[row.name] = {"best": [f"{time:.1f} {one}" for time, one in timed[:5]], "refused": refused}
    return best
