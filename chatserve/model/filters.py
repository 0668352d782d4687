"""top_k, top_p and min_p as one floor: the lowest logit that may still be drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from chatserve.model.sampling import SamplingParams

HEAD = 512
"""Best logits looked at first for top_p: most rows hold their mass in fewer, and sorting a vocabulary is slow."""


def has_filters(params: SamplingParams) -> bool:
    """Whether any of the three is on."""
    return params.top_k > 0 or params.top_p < 1.0 or params.min_p > 0.0


def filtered(scaled: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """scaled: logits divided by the temperature, the best of each row at 0, [n, vocab].

    Returns them with what may not be drawn at -inf. In this order: the top_k best; of those the fewest that hold top_p
    of their mass; of those what is at least min_p as likely as the best. Tokens equal to the last kept are kept.
    """
    floor = torch.tensor([[math.log(each.min_p) if each.min_p > 0 else -math.inf] for each in params])
    floor = floor.to(scaled)
    ranked = [row for row, each in enumerate(params) if each.top_k > 0 or each.top_p < 1.0]
    if ranked:
        lowest = rank_floor(scaled[ranked], [params[row] for row in ranked])
        floor[ranked] = torch.maximum(floor[ranked], lowest)
    return scaled.masked_fill(scaled < floor, -math.inf)


def rank_floor(scaled: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """The lowest logit that top_k, then top_p keep: [n, 1]."""
    vocab = scaled.shape[1]
    limits = [min(each.top_k, vocab) if each.top_k > 0 else vocab for each in params]
    width = min(vocab, max([HEAD, *(limit for limit in limits if limit < vocab)]))
    limit = torch.tensor(limits, device=scaled.device).unsqueeze(1)
    share = torch.tensor([[each.top_p] for each in params], dtype=torch.float64, device=scaled.device)

    best = scaled.topk(width).values
    reached = best.double().exp()
    reached = reached.masked_fill(torch.arange(width, device=scaled.device) >= limit, 0.0).cumsum(-1)
    everything = scaled.double().exp().sum(-1, keepdim=True)
    total = torch.where(limit > width, everything, reached[:, -1:])
    wanted = (reached < share * total).sum(-1, keepdim=True) + 1
    count = torch.where(share < 1.0, torch.minimum(wanted, limit), limit)
    floor = best.gather(1, count.clamp(max=width) - 1)

    beyond = (count > width).squeeze(1).nonzero().squeeze(1).tolist()
    for row in beyond:
        floor[row] = sorted_floor(scaled[row], params[row].top_p)
    return floor


def sorted_floor(scaled: torch.Tensor, top_p: float) -> torch.Tensor:
    """The same for one row [vocab] whose mass is spread wide, top_k off: the whole row sorted."""
    best = scaled.sort(descending=True).values
    reached = best.double().exp().cumsum(-1)
    count = int((reached < top_p * reached[-1]).sum())
    return best[min(count, len(best) - 1)]
