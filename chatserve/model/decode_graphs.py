"""Decode steps as CUDA graphs, for a ladder of numbers of sequences."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from chatserve.model.attention_mixed import DecodeRows, DecodeStep
from chatserve.model.batch import COMING, Batch
from chatserve.model.device_inputs import Drawing, Numbers, draw_keys, temperature_bits, temperatures_of, to_device
from chatserve.model.graphs import Captured, Outcome, Stage, capture_step
from chatserve.model.step import StepRows

IDS, POSITIONS, SLOTS, KEYS, TEMPERATURES = range(5)
"""The rows of a graph's input."""

FIRST, BY_SIXTEEN = (1, 2, 3, 4, 8), 128
"""Numbers of sequences that have a graph; then every 16th up to BY_SIXTEEN, then every 32nd."""


class DecodeGraphs:
    """See StepGraphs: each sequence has one new row, which is sampled. A size is a number of sequences."""

    def __init__(self, stage: Stage, kernel: DecodeRows) -> None:
        self._stage = stage
        self._kernel = kernel
        self._idle = np.array([[0], [0], [stage.scratch], [0], [0]], dtype=np.int64)
        self._rungs: Sequence[int] = ()
        self._captured: dict[int, Captured] = {}

    @property
    def sizes(self) -> Sequence[int]:
        """A ladder on which padding costs little: products take as long, and padded rows attend to one token."""
        most = self._stage.most_sequences
        rungs = {*FIRST, *range(16, BY_SIXTEEN + 1, 16), *range(BY_SIXTEEN + 32, most + 1, 32), most}
        return sorted(rung for rung in rungs if rung <= most)

    def compile(self, size: int) -> None:
        """See StepGraphs."""
        self._compute(self._inputs(size))

    def capture(self, size: int, pool: Any) -> None:
        """See StepGraphs."""
        self._captured[size] = capture_step(self._compute, self._inputs(size), pool)
        self._rungs = sorted(self._captured)

    def fits(self, batch: Batch) -> bool:
        """See StepGraphs."""
        samples = batch.samples
        return (
            len(batch.slots) <= self._rungs[-1]
            and len(samples) == len(batch.token_ids) == len(batch.slots)
            and all(each.sequence == index for index, each in enumerate(samples))
        )

    def replay(self, batch: Batch) -> Outcome:
        """See StepGraphs."""
        rows = len(batch.slots)
        captured = self._captured[self._rungs[bisect_left(self._rungs, rows)]]
        numbers: Numbers = np.repeat(self._idle, captured.inputs.shape[1], axis=1)
        numbers[IDS, :rows] = batch.token_ids.numpy()
        numbers[POSITIONS, :rows] = batch.positions.numpy()
        numbers[SLOTS, :rows] = batch.slots
        numbers[KEYS, :rows] = draw_keys(batch.samples)
        numbers[TEMPERATURES, :rows] = temperature_bits(batch.samples)
        return captured.replay(to_device(numbers, self._stage.newest.device))

    def _inputs(self, size: int) -> torch.Tensor:
        """Of a step of nobody's rows."""
        return to_device(np.repeat(self._idle, size, axis=1), self._stage.newest.device)

    def _compute(self, inputs: torch.Tensor) -> Outcome:
        asked, positions, slots = inputs[IDS], inputs[POSITIONS], inputs[SLOTS]
        ids = torch.where(asked == COMING, self._stage.newest[slots], asked)
        rows = StepRows(ids, positions, slots)
        attention = DecodeStep(self._kernel, self._kernel.plan(slots, positions + 1))
        logits = self._stage.network.logits(rows, attention, None)
        drawing = Drawing(temperatures_of(inputs[TEMPERATURES]), inputs[KEYS], slots)
        return Outcome(ids, slots, logits, self._stage.draw(logits, drawing))
