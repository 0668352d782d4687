"""The bridge from a transformers model to attention over slots.

The model is called with all rows of a step as one flat sequence and without cache or mask. What a row may see is
decided by the step's attention, which travels as a keyword argument through the model's forward to every layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel

from chatserve.model.kv_rows import KVRows, RowWriter
from chatserve.model.step import StepAttention, StepRows

NAME = "chatserve"


@dataclass(frozen=True, slots=True)
class LayerCalls:
    """What a step hands to every layer's attention."""

    writer: RowWriter
    attention: StepAttention


@dataclass(frozen=True, slots=True)
class TransformersWeights:
    """A transformers model whose attention was replaced by `use_slot_attention`."""

    module: PreTrainedModel

    def over(self, kv: torch.Tensor) -> TransformersNetwork:
        """See `Weights`."""
        return TransformersNetwork(self.module, KVRows(kv))


class TransformersNetwork:
    """transformers' own code over an arena."""

    def __init__(self, module: PreTrainedModel, rows: KVRows) -> None:
        self._module = module
        self._rows = rows

    def logits(self, rows: StepRows, attention: StepAttention, sampled: torch.Tensor | None) -> torch.Tensor:
        """See `Network`."""
        output = self._module(
            input_ids=rows.ids.unsqueeze(0),
            position_ids=rows.positions.unsqueeze(0),
            use_cache=False,
            logits_to_keep=0 if sampled is None else sampled,
            calls=LayerCalls(RowWriter(self._rows, rows), attention),
        )
        logits: torch.Tensor = output.logits[0]
        return logits


def slot_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    calls: LayerCalls,
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
    calls.writer.write(layer, key[0].transpose(0, 1), value[0].transpose(0, 1))
    output = calls.attention.attend(layer, query[0].transpose(0, 1), scale)
    return output.unsqueeze(0), None


def use_slot_attention(module: PreTrainedModel) -> None:
    """Make every layer call `slot_attention`. transformers builds no mask for a name its mask registry lacks."""
    AttentionInterface.register(NAME, slot_attention)
    module.set_attn_implementation(NAME)
