"""One step's input to the model: plain tensors and tuples, built by the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from chatserve.model.sampling import SamplingParams


@dataclass(frozen=True, slots=True)
class Sample:
    """One sequence whose last row is sampled.

    sequence: index into the batch's sequences.
    step: tokens this request has generated before: the place in its seed's stream.
    prompt_ids, output_ids: what the penalties look at (output_ids without the token to be sampled).
    """

    sequence: int
    params: SamplingParams
    step: int
    prompt_ids: Sequence[int]
    output_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of one step, sequence after sequence; prompt and decode rows mixed.

    token_ids, positions: int64 [rows], on the CPU.
    slots, starts, counts: for each sequence its slot, the rows already in that slot, and the new rows.
    """

    token_ids: torch.Tensor
    positions: torch.Tensor
    slots: tuple[int, ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]
    samples: tuple[Sample, ...]
