"""Attention of a step whose first sequences have one new row each and whose others have more: a kernel for either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from chatserve.model.batch import Batch
from chatserve.model.device_inputs import to_device
from chatserve.model.step import Kernel, StepAttention


class DecodeRows(Protocol):
    """A kernel for sequences of one new row."""

    def plan(self, slots: torch.Tensor, lengths: torch.Tensor) -> Any:
        """slots, lengths: int64 [sequences]; a length counts the new row. What all layers share."""
        ...

    def attend(
        self, plan: Any, layer: int, query: torch.Tensor, scale: float, output: torch.Tensor | None = None
    ) -> torch.Tensor:
        """query: [sequences, heads, head_dim]; returns that shape: `output`, where that is given."""
        ...


@dataclass(frozen=True, slots=True)
class DecodeStep:
    """See StepAttention: all rows of one sequence each."""

    kernel: DecodeRows
    plan: Any

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        return self.kernel.attend(self.plan, layer, query, scale)


@dataclass(frozen=True, slots=True)
class JoinedStep:
    """See StepAttention: the first `decodes` rows one way, the others another."""

    decodes: int
    first: StepAttention
    others: StepAttention

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        first = self.first.attend(layer, query[: self.decodes], scale)
        return torch.cat([first, self.others.attend(layer, query[self.decodes :], scale)])


class MixedKernel:
    """See Kernel."""

    def __init__(self, decode: DecodeRows, prompts: Kernel, device: torch.device) -> None:
        self._decode = decode
        self._prompts = prompts
        self._device = device

    def step(self, batch: Batch) -> StepAttention:
        """See Kernel."""
        decodes = batch.decodes
        if decodes == 0:
            return self._prompts.step(batch)
        numbers = np.array([batch.slots[:decodes], batch.starts[:decodes]], dtype=np.int64)
        slots, starts = to_device(numbers, self._device)
        first = DecodeStep(self._decode, self._decode.plan(slots, starts + 1))
        if decodes == len(batch.counts):
            return first
        return JoinedStep(decodes, first, self._prompts.step(without_first(batch, decodes)))


def without_first(batch: Batch, sequences: int) -> Batch:
    """The batch of the other sequences, each of the first having one row; its samples are left out."""
    return Batch(
        token_ids=batch.token_ids[sequences:],
        positions=batch.positions[sequences:],
        slots=batch.slots[sequences:],
        starts=batch.starts[sequences:],
        counts=batch.counts[sequences:],
        samples=(),
    )
