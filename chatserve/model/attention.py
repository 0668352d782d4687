"""The bridge from a transformers model to attention over slots.

The model is called with all rows of a step as one flat sequence and without cache or mask. What a row may see is
decided by the step's attention, which travels as a keyword argument through the model's forward to every layer.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from transformers import AttentionInterface, PreTrainedModel

from chatserve.model.batch import Batch

NAME = "chatserve"


class StepAttention(Protocol):
    """Attention for the rows of one step; made anew for each."""

    def attend(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
    ) -> torch.Tensor:
        """Write K and V into the sequences' slots, then attend over them.

        query: [rows, heads, head_dim]; key, value: [rows, kv_heads, head_dim]. Returns the shape of query.
        """
        ...


class Kernel(Protocol):
    """One way to compute attention over the slots of an arena."""

    def step(self, batch: Batch) -> StepAttention:
        """Prepare what all layers of this step share."""
        ...


def slot_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    attention_step: StepAttention,
    scaling: float | None = None,
    **features: Any,
) -> tuple[torch.Tensor, None]:
    """transformers' attention signature: q, k, v [1, heads, rows, head_dim] -> [1, rows, heads, head_dim].

    `features` that would change the result were refused when the model was loaded (probe.py).
    """
    del attention_mask, features
    layer = module.layer_idx
    assert isinstance(layer, int)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    output = attention_step.attend(
        layer, query[0].transpose(0, 1), key[0].transpose(0, 1), value[0].transpose(0, 1), scale
    )
    return output.unsqueeze(0), None


def use_slot_attention(module: PreTrainedModel) -> None:
    """Make every layer call `slot_attention`. transformers builds no mask for a name its mask registry lacks."""
    AttentionInterface.register(NAME, slot_attention)
    module.set_attn_implementation(NAME)
