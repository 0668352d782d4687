"""One step's input to the model: plain tensors and tuples, built by the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from chatserve.model.sampling import SamplingParams

COMING = -1
"""Stands for the id of a token that the step before brings: the newest of its slot, known on the device only."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sequence whose last row is sampled.

    sequence: index into the batch's sequences.
    step: tokens this request has generated before: the place in its seed's stream.
    prompt_ids, output_ids: what the penalties look at; empty where there are none.
    coming: whether the newest of the generated tokens is COMING, and so not among output_ids.
    """

    sequence: int
    params: SamplingParams
    step: int
    prompt_ids: Sequence[int]
    output_ids: Sequence[int]
    coming: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one step, sequence after sequence; prompt and decode rows mixed.

    token_ids, positions: int64 [rows], on the CPU; an id may be COMING.
    slots, starts, counts: for each sequence its slot, the rows already in that slot, and the new rows.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: tuple[int, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]
    samples: tuple[Sample, ...]

    @property
    def decodes(self) -> int:
        """How many of its first sequences have one new row each."""
        return next((place for place, count in enumerate(self.counts) if count != 1), len(self.counts))
