"""From logits to tokens: a row's depends on its own logits, parameters, seed and step, never on its neighbours."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from chatserve.model.batch import Sample
from chatserve.model.draws import uniform
from chatserve.model.filters import filtered, has_filters
from chatserve.model.penalties import has_penalties, penalized
from chatserve.model.sampling import SamplingParams

COLDEST = 1e-5
"""Below this temperature only the best token has any weight left: greedy, without the overflow."""

NOT_FINITE = -1
"""Stands for the token of a row whose best logit is no finite number."""


def sample(logits: torch.Tensor, samples: Sequence[Sample], newest: torch.Tensor) -> torch.Tensor:
    """logits [n, vocab] float32, a row per sample. Returns int64 [n]; NOT_FINITE where a row's logits are broken.

    newest: int64 [n], the newest token of each row where the sample says that it is coming.
    Greedy rows take the true argmax, and cost no more than that.
    """
    logits = penalized(logits, samples, newest)
    best, chosen = logits.max(dim=-1)
    drawn = [row for row, each in enumerate(samples) if not is_greedy(each.params)]
    if drawn:
        rows = torch.tensor(drawn, device=logits.device)
        chosen[rows] = draw(logits[rows], best[rows], [samples[row] for row in drawn])
    return chosen.masked_fill(~best.isfinite(), NOT_FINITE)


def is_plain(params: SamplingParams) -> bool:
    """Whether its tokens come of logits and temperature alone."""
    return not has_penalties(params) and (is_greedy(params) or not has_filters(params))


def is_greedy(params: SamplingParams) -> bool:
    """Whether the best token is the only one that can come."""
    return params.temperature < COLDEST or params.top_k == 1


def draw(logits: torch.Tensor, best: torch.Tensor, samples: Sequence[Sample]) -> torch.Tensor:
    """logits [n, vocab] and the best of each row [n] -> int64 [n], one draw a row by the inverse of its distribution.

    Sums are in float64, so that rounding does not move the edges between tokens.
    """
    temperatures = torch.tensor([[each.params.temperature] for each in samples], dtype=torch.float32)
    scaled = (logits - best.unsqueeze(1)) / temperatures.to(logits.device)
    narrow = [row for row, each in enumerate(samples) if has_filters(each.params)]
    if narrow:
        scaled[narrow] = filtered(scaled[narrow], [samples[row].params for row in narrow])
    reached = scaled.exp().cumsum(dim=-1, dtype=torch.float64)
    draws = torch.tensor([[uniform(each.params.seed, each.step)] for each in samples], dtype=torch.float64)
    targets = draws.to(logits.device) * reached[:, -1:]
    found = torch.searchsorted(reached, targets, right=True).squeeze(1)
    return found.clamp(max=logits.shape[1] - 1)
