"""Penalties on tokens that were already there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from chatserve.model.batch import Sample
from chatserve.model.sampling import SamplingParams


def penalized(logits: torch.Tensor, samples: Sequence[Sample], newest: torch.Tensor) -> torch.Tensor:
    """logits [n, vocab], a row per sample. Returns them changed, or as they are where no row asks for it.

    newest: int64 [n], the newest token of each row where the sample says that it is coming.
    """
    rows = [row for row, sample in enumerate(samples) if has_penalties(sample.params)]
    if not rows:
        return logits
    changed = logits.clone()
    for row in rows:
        sample = samples[row]
        penalize(changed[row], sample, newest[row : row + sample.coming])
    return changed


def has_penalties(params: SamplingParams) -> bool:
    """Whether any penalty is on."""
    additive = params.presence_penalty or params.frequency_penalty
    return params.repetition_penalty != 1.0 or bool(additive)


def penalize(logits: torch.Tensor, sample: Sample, coming: torch.Tensor) -> None:
    """Change one row [vocab] in place.

    coming: int64, the generated token that is not among output_ids yet, if there is one.
    Repetition (prompt and output): a positive logit is divided by the penalty, a negative one multiplied. Presence and
    frequency (output only): subtracted once, and once for every time the token was generated.
    """
    params = sample.params
    if params.repetition_penalty != 1.0:
        ids = sorted({*sample.prompt_ids, *sample.output_ids})
        seen = torch.cat([torch.tensor(ids, dtype=torch.int64, device=logits.device), coming])
        scores = logits[seen]
        penalty = params.repetition_penalty
        logits[seen] = torch.where(scores > 0, scores / penalty, scores * penalty)
    if params.presence_penalty or params.frequency_penalty:
        times = Counter(sample.output_ids)
        tokens = torch.tensor(list(times.keys()), dtype=torch.int64, device=logits.device)
        counts = torch.tensor(list(times.values()), dtype=logits.dtype, device=logits.device)
        first_time = (tokens.unsqueeze(1) != coming).all(dim=0).to(logits.dtype)
        logits[tokens] -= params.presence_penalty + params.frequency_penalty * counts
        logits[coming] -= params.presence_penalty * first_time + params.frequency_penalty
