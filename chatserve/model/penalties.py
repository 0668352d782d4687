"""Penalties on tokens that were already there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from chatserve.model.batch import Sample
from chatserve.model.sampling import SamplingParams


def penalized(logits: torch.Tensor, samples: Sequence[Sample]) -> torch.Tensor:
    """logits [n, vocab], a row per sample. Returns them changed, or as they are where no row asks for it."""
    rows = [row for row, sample in enumerate(samples) if has_penalties(sample.params)]
    if not rows:
        return logits
    changed = logits.clone()
    for row in rows:
        penalize(changed[row], samples[row])
    return changed


def has_penalties(params: SamplingParams) -> bool:
    """Whether any penalty is on."""
    additive = params.presence_penalty or params.frequency_penalty
    return params.repetition_penalty != 1.0 or bool(additive)


def penalize(logits: torch.Tensor, sample: Sample) -> None:
    """Change one row [vocab] in place.

    Repetition (prompt and output): a positive logit is divided by the penalty, a negative one multiplied. Presence and
    frequency (output only): subtracted once, and once for every time the token was generated.
    """
    params = sample.params
    if params.repetition_penalty != 1.0:
        ids = sorted({*sample.prompt_ids, *sample.output_ids})
        seen = torch.tensor(ids, dtype=torch.int64, device=logits.device)
        scores = logits[seen]
        penalty = params.repetition_penalty
        logits[seen] = torch.where(scores > 0, scores / penalty, scores * penalty)
    if (params.presence_penalty or params.frequency_penalty) and len(sample.output_ids):
        times = Counter(sample.output_ids)
        tokens = torch.tensor(list(times.keys()), dtype=torch.int64, device=logits.device)
        counts = torch.tensor(list(times.values()), dtype=logits.dtype, device=logits.device)
        logits[tokens] -= params.presence_penalty + params.frequency_penalty * counts
