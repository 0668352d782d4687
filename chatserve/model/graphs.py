"""Decode steps captured in CUDA graphs: one launch for a whole step, for a ladder of numbers of sequences.

Slots are stable addresses, and what changes from step to step (ids, positions, slots, draws) is read from memory. So a
graph is captured once and replayed for whatever sequences there are; chunks may be mapped and unmapped between. A step
of fewer sequences than its graph has rows fills the rest with a scratch slot, whose one row is written and never read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from chatserve.model.attention_mixed import DecodeRows, DecodeStep
from chatserve.model.batch import COMING, Batch
from chatserve.model.device_inputs import Drawing, Numbers, draw_keys, temperature_bits, temperatures_of, to_device
from chatserve.model.draw_triton import DrawWorkspace, draw_tokens
from chatserve.model.step import Network, StepRows

IDS, POSITIONS, SLOTS, KEYS, TEMPERATURES = range(5)
"""The rows of a graph's input."""

SINGLY, BY_EIGHT = 4, 128
"""Up to SINGLY every number of sequences has a graph; then every eighth up to BY_EIGHT, then every sixteenth."""


def ladder(most: int) -> list[int]:
    """Numbers of sequences to capture, up to `most`: padding costs a step a few percent at most."""
    singly = range(1, SINGLY + 1)
    rungs = {*singly, *range(8, BY_EIGHT + 1, 8), *range(BY_EIGHT + 16, most + 1, 16), most}
    return sorted(rung for rung in rungs if rung <= most)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step computed for its samples, on the device. ids: of the sampled rows.  slots: of their sequences."""

    ids: torch.Tensor
    slots: torch.Tensor
    logits: torch.Tensor
    tokens: torch.Tensor


@dataclass(frozen=True, slots=True)
class Captured:
    """One graph and its memory. inputs: int64 [5, size]."""

    graph: torch.cuda.CUDAGraph
    inputs: torch.Tensor
    outcome: Outcome


class DecodeGraphs:
    """newest: int64 [slots]: read where an id is COMING, written with each step's tokens.

    scratch: a slot of which the first row is mapped and nobody's.
    """

    def __init__(
        self,
        network: Network,
        kernel: DecodeRows,
        workspace: DrawWorkspace,
        *,
        newest: torch.Tensor,
        scratch: int,
    ) -> None:
        self._network = network
        self._kernel = kernel
        self._workspace = workspace
        self._newest = newest
        self._idle = np.array([[0], [0], [scratch], [0], [0]], dtype=np.int64)
        self._sizes: Sequence[int] = ()
        self._captured: dict[int, Captured] = {}

    def capture(self, sizes: Sequence[int], progress: Callable[[int, int], None]) -> None:
        """Capture each size, the largest first: the others then need no memory of their own.

        progress: told how many are done, of how many.
        """
        pool = torch.cuda.graph_pool_handle()
        for done, size in enumerate(sorted(sizes, reverse=True)):
            progress(done, len(sizes))
            self._captured[size] = self._capture(size, pool)
        self._sizes = sorted(self._captured)
        progress(len(sizes), len(sizes))

    def fits(self, batch: Batch) -> bool:
        """Whether each of its sequences has one new row, which is sampled, and there are not too many."""
        samples = batch.samples
        return (
            len(batch.slots) <= self._sizes[-1]
            and len(samples) == len(batch.token_ids) == len(batch.slots)
            and all(each.sequence == index for index, each in enumerate(samples))
        )

    def replay(self, batch: Batch) -> Outcome:
        """Queue the step. What it returns holds this step's values until the next replay is queued."""
        rows = len(batch.slots)
        captured = self._captured[self._sizes[bisect_left(self._sizes, rows)]]
        numbers: Numbers = np.repeat(self._idle, captured.inputs.shape[1], axis=1)
        numbers[IDS, :rows] = batch.token_ids.numpy()
        numbers[POSITIONS, :rows] = batch.positions.numpy()
        numbers[SLOTS, :rows] = batch.slots
        numbers[KEYS, :rows] = draw_keys(batch.samples)
        numbers[TEMPERATURES, :rows] = temperature_bits(batch.samples)
        captured.inputs.copy_(to_device(numbers, self._newest.device))
        captured.graph.replay()
        return captured.outcome

    def _capture(self, size: int, pool: Any) -> Captured:
        inputs = to_device(np.repeat(self._idle, size, axis=1), self._newest.device)
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._compute(inputs)  # compiles and allocates what a capture cannot
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # The mapper's calls in another thread are none of this capture's business.
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
            outcome = self._compute(inputs)
        return Captured(graph, inputs, outcome)

    def _compute(self, inputs: torch.Tensor) -> Outcome:
        asked, positions, slots = inputs[IDS], inputs[POSITIONS], inputs[SLOTS]
        ids = torch.where(asked == COMING, self._newest[slots], asked)
        rows = StepRows(ids, positions, slots)
        attention = DecodeStep(self._kernel, self._kernel.plan(slots, positions + 1))
        logits = self._network.logits(rows, attention, None)
        drawing = Drawing(temperatures_of(inputs[TEMPERATURES]), inputs[KEYS], slots)
        return Outcome(ids, slots, logits, draw(logits, drawing, self._newest, self._workspace))


def draw(logits: torch.Tensor, drawing: Drawing, newest: torch.Tensor, workspace: DrawWorkspace) -> torch.Tensor:
    """A token a row, written into `newest` too."""
    return draw_tokens(logits, drawing.temperatures, drawing.keys, drawing.slots, newest, workspace)
