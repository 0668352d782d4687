"""Decode attention on CUDA over slots: one new token a sequence, balanced by tokens, capturable in a CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import triton

from chatserve.model.attention_decode_triton import attend_kernel, join_kernel
from chatserve.model.decode_plan_triton import ITEM_WORDS, plan_kernel
from chatserve.model.early_launch import launch_options
from chatserve.model.kv_rows import KVRows

MOST_ROWS = 1024
"""Sequences of one step: the plan is made by one program."""

PLAN_TILES = (16, 64, 256, MOST_ROWS)
"""Sequences that a plan has room for: each is one more kernel to compile."""

PROCESSORS_OF_NO_DEVICE = 4
"""What the interpreter on the CPU plans for."""

PIECES_JOINED = 32
"""At once, by a program of the kernel that only joins."""

JOINED_NUMBERS = 8192
"""float32 numbers of partial results that the last program of a sequence and KV head holds while it joins pieces."""


@dataclass(frozen=True, slots=True)
class DecodeTiling:
    """tile: tokens read at once.  warps, stages: of a program.  programs: that fit on a processor of the device.
    waves: rounds of programs for which a ragged batch is cut, so that short pieces fill the end of the last round.
    apart: a second kernel joins the pieces, not the last program of each sequence and KV head.
    """

    tile: int
    warps: int
    stages: int
    programs: int
    waves: int
    apart: bool = False


BY_ROWS = (
    (24, DecodeTiling(tile=32, warps=2, stages=6, programs=2, waves=2)),
    (48, DecodeTiling(tile=64, warps=4, stages=4, programs=2, waves=2)),
    (128, DecodeTiling(tile=32, warps=2, stages=4, programs=4, waves=2)),
    (MOST_ROWS + 1, DecodeTiling(tile=64, warps=4, stages=3, programs=3, waves=2)),
)
"""What reads rows of 256 bytes fastest, for fewer than so many sequences: 130 to 200 KiB on the way on a processor."""
LARGE_GROUP = DecodeTiling(tile=128, warps=8, stages=3, programs=1, waves=2, apart=True)
"""Of 16 query heads on: what their pieces leave is too much for one program to join."""


def tiling(head_dim: int, group: int, item_bytes: int, rows: int) -> DecodeTiling:
    """As measured fastest, its tile shortened where rows of K and V are long."""
    row_bytes: int = triton.next_power_of_2(head_dim) * item_bytes
    one = LARGE_GROUP if group >= 16 else next(one for fewer, one in BY_ROWS if rows < fewer)
    return replace(one, tile=min(one.tile, max(16, one.tile * 256 // row_bytes)))


@dataclass(frozen=True, slots=True)
class DecodePlan:
    """items: int32 [bound, ITEM_WORDS], of which the first `count` (int32 [1]) are set.  rows: the step's sequences.

    tiling: for which the items were cut.
    """

    items: torch.Tensor
    count: torch.Tensor
    rows: int
    tiling: DecodeTiling


class DecodeKernel:
    """kv: the arena [slots, rows, layers, 2, kv_heads, head_dim].  heads: of a query.  most_rows: sequences of a step.

    window: how many of its last tokens a sequence attends to, the new one counted.  softcap: of the scores.
    chosen: for every step, instead of what reads it fastest.
    early: kernels start while the ones before them end, where the device can.
    Steps must follow one another on one stream: they share what pieces leave for one another.
    """

    def __init__(
        self,
        kv: torch.Tensor,
        heads: int,
        *,
        most_rows: int,
        window: int | None = None,
        softcap: float | None = None,
        chosen: DecodeTiling | None = None,
        early: bool = True,
    ) -> None:
        assert 0 < most_rows <= MOST_ROWS, f"{most_rows} sequences in a step, of at most {MOST_ROWS}"
        self._kv_rows = KVRows(kv)
        self._kv_heads, self._head_dim = kv.shape[-2:]
        self._group, rest = divmod(heads, self._kv_heads)
        assert rest == 0, f"{heads} query heads over {self._kv_heads} KV heads"
        self._window = window or 0
        self._softcap = softcap or 0.0
        self._most_rows = most_rows
        self._item_bytes = kv.element_size()
        self._chosen = chosen
        self._options = launch_options(early, kv.device)
        self._processors = processors(kv.device)
        items = [self._most_items(rows, self._tiling(rows)) for rows in range(1, most_rows + 1)]
        self._candidates = {tile: triton.next_power_of_2(max(items[:tile])) for tile in PLAN_TILES}
        pieces = max(items)
        self._partials = kv.new_empty(pieces, self._kv_heads, self._group, self._head_dim, dtype=torch.float32)
        self._weights = kv.new_empty(pieces, self._kv_heads, self._group, dtype=torch.float32)
        self._arrivals = kv.new_zeros(most_rows, self._kv_heads, dtype=torch.int32)

    @staticmethod
    def supports(kv: torch.Tensor) -> bool:
        """Whether this kernel can read such an arena."""
        known = kv.dtype in (torch.float16, torch.bfloat16, torch.float32)
        return kv.device.type == "cuda" and known and kv.shape[-1] % 8 == 0 and kv.shape[-1] <= 256

    def plan(self, slots: torch.Tensor, lengths: torch.Tensor) -> DecodePlan:
        """slots, lengths: int64 [sequences]; a length counts the new token. A sequence of no token attends to zeros."""
        rows = len(slots)
        assert 0 < rows <= self._most_rows, f"{rows} sequences in a step, of at most {self._most_rows}"
        one = self._tiling(rows)
        most_items = self._most_items(rows, one)
        rows_tile = next(tile for tile in PLAN_TILES if rows <= tile)
        items = torch.empty(most_items, ITEM_WORDS, dtype=torch.int32, device=slots.device)
        count = torch.empty(1, dtype=torch.int32, device=slots.device)
        plan_kernel[(1,)](
            lengths,
            slots,
            items,
            count,
            rows,
            one.tile,
            self._processors * one.programs,
            one.waves,
            most_items,
            ROWS_TILE=rows_tile,
            KV_HEADS=self._kv_heads,
            GROUP=self._group,
            WINDOW=self._window,
            CANDIDATES=self._candidates[rows_tile],
            WORDS=ITEM_WORDS,
            PIECES_TILE=max(1, 1024 // rows_tile),
            APART=one.apart,
            num_warps=4,
            **self._options,
        )
        return DecodePlan(items=items, count=count, rows=rows, tiling=one)

    def attend(
        self, plan: DecodePlan, layer: int, query: torch.Tensor, scale: float, output: torch.Tensor | None = None
    ) -> torch.Tensor:
        """query: [sequences, heads, head_dim], its last dimension dense. Returns the same shape, dense: `output`, where
        that is given.

        Each sequence's K and V, the new token's included, are in its slot already.
        """
        keys, values = self._kv_rows.keys[layer], self._kv_rows.values[layer]
        assert query.shape == (plan.rows, self._kv_heads * self._group, self._head_dim)
        assert query.stride(2) == 1
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device) if output is None else output
        assert output.shape == query.shape
        assert output.is_contiguous()
        one = plan.tiling
        group_join, dim_tile = triton.next_power_of_2(self._group), max(16, triton.next_power_of_2(self._head_dim))
        attend_kernel[(self._kv_heads, len(plan.items))](
            query,
            keys,
            values,
            output,
            self._partials,
            self._weights,
            self._arrivals,
            plan.items,
            plan.count,
            scale,
            query.stride(0),
            query.stride(1),
            *keys.stride()[:3],
            KV_HEADS=self._kv_heads,
            GROUP=self._group,
            GROUP_TILE=max(16, group_join),
            GROUP_JOIN=group_join,
            DIM=self._head_dim,
            DIM_TILE=dim_tile,
            TILE=one.tile,
            SOFTCAP=self._softcap,
            WORDS=ITEM_WORDS,
            APART=one.apart,
            JOIN=max(1, JOINED_NUMBERS // (group_join * dim_tile)),
            num_warps=one.warps,
            num_stages=one.stages,
            **self._options,
        )
        if one.apart:
            join_kernel[(plan.rows, self._kv_heads * self._group)](
                output,
                self._partials,
                self._weights,
                plan.items,
                KV_HEADS=self._kv_heads,
                GROUP=self._group,
                DIM=self._head_dim,
                DIM_TILE=dim_tile,
                PIECES_TILE=PIECES_JOINED,
                WORDS=ITEM_WORDS,
                num_warps=4,
                **self._options,
            )
        return output

    def _tiling(self, rows: int) -> DecodeTiling:
        return self._chosen or tiling(self._head_dim, self._group, self._item_bytes, rows)

    def _most_items(self, rows: int, one: DecodeTiling) -> int:
        """How many pieces a step of so many sequences has at most. One sequence is always cut for one round."""
        waves = 1 if rows == 1 else one.waves
        return rows + waves * self._processors * one.programs // self._kv_heads


def processors(device: torch.device) -> int:
    """Of a CUDA device, its multiprocessors."""
    if device.type != "cuda":
        return PROCESSORS_OF_NO_DEVICE
    return torch.cuda.get_device_properties(device).multi_processor_count
