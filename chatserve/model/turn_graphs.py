"""Steps of prompt rows, and of decodes among them, as CUDA graphs, for a ladder of numbers of rows.

Launched one by one, the kernels of such a step keep the host busy for longer than the device: a short turn would wait
for Python. A graph of many rows reads its decodes with the decode kernel, like a step of nothing else; one of few rows
leaves them to the prompts' kernel, because there one launch more a layer costs what it saves.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from chatserve.model.attention_fa3 import Fa3Kernel, Fa3Step
from chatserve.model.attention_mixed import DecodeRows
from chatserve.model.batch import COMING, Batch
from chatserve.model.device_inputs import Drawing, Numbers, draw_keys, temperature_bits, temperatures_of, to_device
from chatserve.model.graphs import Captured, Outcome, Stage, capture_step
from chatserve.model.step import StepAttention, StepRows

RUNGS = (32, 64, 96, *range(128, 640, 64), *range(640, 2049, 128))
"""Rows. Below some 256 a step takes as long as reading the weights, so finer steps would gain little there. Up to a
whole step of prompts: the host launches one kernel by kernel in 25 ms or more, and the short steps before end
meanwhile.
"""

MOST_SEQUENCES = 256
"""Of a step, and no more than its rows: a crowd that decodes is not slowed down by each prompt that joins it."""

CROWD = 128
"""Rows, from which the decodes of a graph have their own kernel."""

MOST_PROMPTS = 64
"""Of a graph whose decodes have their own kernel."""


@dataclass(frozen=True, slots=True)
class Sequences:
    """How many of each kind a graph has room for. decodes: 0 where they are prompts of one row to it."""

    prompts: int
    decodes: int
    samples: int


@dataclass(frozen=True, slots=True)
class OverwrittenStep:
    """See StepAttention. The decode kernel writes the first rows, then the prompts' kernel those that are its own."""

    decode: DecodeRows
    plan: Any
    first: int
    prompts: Fa3Step

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        output = torch.empty_like(query)
        self.decode.attend(self.plan, layer, query[: self.first], scale, output[: self.first])
        return self.prompts.attend(layer, query, scale, output)


class TurnGraphs:
    """See StepGraphs. A size is a number of rows.

    decode: None leaves all rows to the prompts' kernel.  most_rows: of a step.
    """

    def __init__(self, stage: Stage, prompts: Fa3Kernel, decode: DecodeRows | None, most_rows: int) -> None:
        self._stage = stage
        self._most_rows = min(most_rows, RUNGS[-1])
        self._prompts = prompts
        self._decode = decode
        self._most_sequences = min(MOST_SEQUENCES, stage.most_sequences)
        self._rungs: Sequence[int] = ()
        self._captured: dict[int, Captured] = {}

    @property
    def sizes(self) -> Sequence[int]:
        """See StepGraphs."""
        return (*(rung for rung in RUNGS if rung < self._most_rows), self._most_rows)

    def compile(self, size: int) -> None:
        """See StepGraphs."""
        self._compute(size, self._idle(size))

    def capture(self, size: int, pool: Any) -> None:
        """See StepGraphs."""
        self._captured[size] = capture_step(partial(self._compute, size), self._idle(size), pool)
        self._rungs = sorted(self._captured)

    def fits(self, batch: Batch) -> bool:
        """See StepGraphs."""
        rows, sequences = len(batch.token_ids), len(batch.slots)
        if rows > self._rungs[-1] or sequences > self._most_sequences:
            return False
        size = self._size(rows)
        return sequences - self._decodes(batch, size) <= self._sequences(size).prompts

    def replay(self, batch: Batch) -> Outcome:
        """See StepGraphs."""
        size = self._size(len(batch.token_ids))
        return self._captured[size].replay(to_device(self._numbers(batch, size), self._stage.newest.device))

    def _idle(self, size: int) -> torch.Tensor:
        """The input of a step of nobody's rows."""
        nothing = Batch(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), (), (), (), ())
        return to_device(self._numbers(nothing, size), self._stage.newest.device)

    def _size(self, rows: int) -> int:
        return self._rungs[bisect_left(self._rungs, rows)]

    def _sequences(self, size: int) -> Sequences:
        """What a graph has room for."""
        most = min(self._most_sequences, size)
        if self._decode is None or size < CROWD:
            return Sequences(prompts=most, decodes=0, samples=most)
        return Sequences(prompts=MOST_PROMPTS, decodes=most, samples=most)

    def _decodes(self, batch: Batch, size: int) -> int:
        """How many of a step's first sequences the decode kernel reads."""
        return batch.decodes if self._sequences(size).decodes else 0

    def _numbers(self, batch: Batch, size: int) -> Numbers:
        """A graph's input: three numbers a row, three a prompt, four a sample; where the last prompt's rows end, and
        how many decodes come before the first.
        """
        room, rows, decodes = self._sequences(size), len(batch.token_ids), self._decodes(batch, size)
        slots, starts, counts = (np.array(each, dtype=np.int64) for each in (batch.slots, batch.starts, batch.counts))
        ends = np.cumsum(counts)
        sampled = [each.sequence for each in batch.samples]
        scratch = self._stage.scratch
        # What is missing: rows and draws of the scratch slot, and prompts of no row after the last.
        parts = [
            (batch.token_ids.numpy(), size, 0),
            (batch.positions.numpy(), size, 0),
            (np.repeat(slots, counts), size, scratch),
            ((ends - counts)[decodes:], room.prompts, rows),
            ((starts + counts)[decodes:], room.prompts, 0),
            (slots[decodes:], room.prompts, scratch),
            (ends[sampled] - 1, room.samples, 0),
            (slots[sampled], room.samples, scratch),
            (draw_keys(batch.samples), room.samples, 0),
            (temperature_bits(batch.samples), room.samples, 0),
        ]
        numbers: Numbers = np.empty(sum(places for _, places, _ in parts) + 2, dtype=np.int64)
        start = 0
        for part, places, fill in parts:
            numbers[start : start + len(part)] = part
            numbers[start + len(part) : start + places] = fill
            start += places
        numbers[start:] = rows, decodes
        return numbers

    def _compute(self, size: int, inputs: torch.Tensor) -> Outcome:
        room = self._sequences(size)
        parts = inputs.split_with_sizes([size] * 3 + [room.prompts] * 3 + [room.samples] * 4 + [1, 1])
        asked, positions, slots, firsts, lengths, owners, sampled, drawn, keys, temperatures, end, decodes = parts
        ids = torch.where(asked == COMING, self._stage.newest[slots], asked)
        rows = StepRows(ids, positions, slots)
        prompts = self._prompts.captured(torch.cat([firsts, end]).int(), lengths.int(), owners.int(), most_new=size)
        attention = self._joined(prompts, rows, decodes, room.decodes)
        logits = self._stage.network.logits(rows, attention, sampled)
        drawing = Drawing(temperatures_of(temperatures), keys, drawn)
        tokens = self._stage.draw(logits, drawing)
        return Outcome(ids[sampled], drawn, logits, tokens)

    def _joined(self, prompts: Fa3Step, rows: StepRows, decodes: torch.Tensor, most: int) -> StepAttention:
        """The first `decodes` rows, of at most so many, are decodes; every other is a prompt's."""
        if self._decode is None or not most:
            return prompts
        slots, positions = rows.slots[:most], rows.positions[:most]
        ranks = torch.arange(most, device=slots.device)
        lengths = torch.where(ranks < decodes, positions + 1, 0)  # those of no token are overwritten
        return OverwrittenStep(self._decode, self._decode.plan(slots, lengths), most, prompts)
