"""Steps of a few hundred rows, prompts and decodes mixed, as CUDA graphs, for a ladder of numbers of rows.

Launched one by one, the kernels of such a step keep the host busy for longer than the device: a short turn would wait
for Python.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from chatserve.model.attention_fa3 import Fa3Kernel
from chatserve.model.batch import COMING, Batch
from chatserve.model.device_inputs import Drawing, Numbers, draw_keys, temperature_bits, temperatures_of, to_device
from chatserve.model.graphs import Captured, Outcome, Stage, capture_step
from chatserve.model.step import StepRows

SIZES = (32, 64, 96, 128, 192, 256, 320, 384, 448, 512, 576, 640, 768)
"""Rows. Below some 256 a step takes as long as reading the weights, so finer steps would gain little there."""

MOST_SEQUENCES = 256
"""Of a step, and no more than its rows: a crowd that decodes is not slowed down by each prompt that joins it."""


class TurnGraphs:
    """See StepGraphs. A size is a number of rows."""

    def __init__(self, stage: Stage, kernel: Fa3Kernel) -> None:
        self._stage = stage
        self._kernel = kernel
        self._most_sequences = min(MOST_SEQUENCES, stage.most_sequences)
        self._rungs: Sequence[int] = ()
        self._captured: dict[int, Captured] = {}

    @property
    def sizes(self) -> Sequence[int]:
        """See StepGraphs."""
        return SIZES

    def capture(self, size: int, pool: Any) -> None:
        """See StepGraphs."""
        nothing = Batch(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), (), (), (), ())
        inputs = to_device(self._numbers(nothing, size), self._stage.newest.device)
        self._captured[size] = capture_step(partial(self._compute, size), inputs, pool)
        self._rungs = sorted(self._captured)

    def fits(self, batch: Batch) -> bool:
        """See StepGraphs."""
        return len(batch.token_ids) <= self._rungs[-1] and len(batch.slots) <= self._most_sequences

    def replay(self, batch: Batch) -> Outcome:
        """See StepGraphs."""
        size = self._rungs[bisect_left(self._rungs, len(batch.token_ids))]
        return self._captured[size].replay(to_device(self._numbers(batch, size), self._stage.newest.device))

    def _numbers(self, batch: Batch, size: int) -> Numbers:
        """A graph's input: three numbers a row, seven a sequence, and where the last sequence's rows end."""
        rows, sequences = len(batch.token_ids), self._sequences(size)
        ends = np.cumsum(batch.counts, dtype=np.int64)
        sampled = [each.sequence for each in batch.samples]
        slots = np.array(batch.slots, dtype=np.int64)
        starts, counts = (np.array(each, dtype=np.int64) for each in (batch.starts, batch.counts))
        by_row = (batch.token_ids.numpy(), batch.positions.numpy(), np.repeat(slots, counts))
        by_sequence = (
            ends - counts,
            starts + counts,
            slots,
            ends[sampled] - 1,
            slots[sampled],
            draw_keys(batch.samples),
            temperature_bits(batch.samples),
        )
        # What is missing: rows and draws of the scratch slot, and sequences of no row after the last.
        row_fill = (0, 0, self._stage.scratch)
        sequence_fill = (rows, 0, self._stage.scratch, 0, self._stage.scratch, 0, 0)
        padded = [
            *(padded_to(each, size, fill) for each, fill in zip(by_row, row_fill, strict=True)),
            *(padded_to(each, sequences, fill) for each, fill in zip(by_sequence, sequence_fill, strict=True)),
        ]
        return np.concatenate([*padded, [rows]])

    def _sequences(self, size: int) -> int:
        return min(self._most_sequences, size)

    def _compute(self, size: int, inputs: torch.Tensor) -> Outcome:
        sequences = self._sequences(size)
        parts = inputs.split_with_sizes([size] * 3 + [sequences] * 7 + [1])
        asked, positions, slots, firsts, lengths, owners, sampled, drawn, keys, temperatures, end = parts
        ids = torch.where(asked == COMING, self._stage.newest[slots], asked)
        rows = StepRows(ids, positions, slots)
        attention = self._kernel.captured(torch.cat([firsts, end]).int(), lengths.int(), owners.int(), most_new=size)
        logits = self._stage.network.logits(rows, attention, sampled)
        drawing = Drawing(temperatures_of(temperatures), keys, drawn)
        tokens = self._stage.draw(logits, drawing)
        return Outcome(ids[sampled], drawn, logits, tokens)


def padded_to(numbers: Numbers, size: int, fill: int) -> Numbers:
    """As many, the missing ones being `fill`."""
    return np.concatenate([numbers, np.full(size - len(numbers), fill, dtype=np.int64)])
