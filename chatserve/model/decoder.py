"""The fused decoder: a step's rows through all layers, with few and large matrix products.

Queries, keys and values are one product; gate and up are another; everything between two products is one operation.
Nothing here depends on what the device computes, so a step can be captured in a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn.functional import embedding, linear

from chatserve.model.decoder_weights import DecoderWeights, LayerWeights
from chatserve.model.ops import Ops
from chatserve.model.step import StepAttention, StepRows


@dataclass(frozen=True, slots=True)
class Angles:
    """cos, sin: float32 [max_len, head_dim // 2], by position."""

    cos: torch.Tensor
    sin: torch.Tensor


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer over an arena. keys, values: its views [slots, rows, kv_heads, head_dim]."""

    index: int
    weights: LayerWeights
    keys: torch.Tensor
    values: torch.Tensor


def layers_over(weights: DecoderWeights, kv: torch.Tensor) -> list[Layer]:
    """Each layer's record. kv: the arena [slots, rows, layers, 2, kv_heads, head_dim]."""
    keys, values = (kv[:, :, :, which].unbind(2) for which in (0, 1))
    return [Layer(*each) for each in zip(range(len(weights.layers)), weights.layers, keys, values, strict=True)]


class Decoder:
    """See Network. Any number of rows."""

    def __init__(self, weights: DecoderWeights, angles: Angles, ops: Ops, kv: torch.Tensor) -> None:
        self._weights = weights
        self._angles = angles
        self._ops = ops
        self._layers = layers_over(weights, kv)
        self._heads = weights.shape.heads
        self._eps = weights.shape.eps
        self._scale = weights.shape.head_dim**-0.5

    def logits(self, rows: StepRows, attention: StepAttention, sampled: torch.Tensor | None) -> torch.Tensor:
        """See Network. Past the last layer's attention only the sampled rows go on: nothing reads the others."""
        ops, eps, weights = self._ops, self._eps, self._weights
        x = embedding(rows.ids, weights.embed)
        residual = x
        normed = ops.norm(x, self._layers[0].weights.input_norm, eps)
        for layer, after in zip(self._layers, self._layers[1:], strict=False):
            x, residual = self._feed(layer, self._attend(layer, normed, rows, attention), residual)
            normed, residual = ops.add_norm(x, residual, after.weights.input_norm, eps)
        last = self._layers[-1]
        attended = self._attend(last, normed, rows, attention)
        if sampled is not None:
            if sampled.shape[0] == 0:
                return weights.head.new_empty(0, weights.head.shape[0])
            attended, residual = attended.index_select(0, sampled), residual.index_select(0, sampled)
        x, residual = self._feed(last, attended, residual)
        normed, _ = ops.add_norm(x, residual, weights.norm, eps)
        return linear(normed, weights.head)

    def _attend(self, layer: Layer, normed: torch.Tensor, rows: StepRows, attention: StepAttention) -> torch.Tensor:
        """[rows, hidden] -> [rows, heads * head_dim]."""
        own = layer.weights
        query = self._ops.rope_write(
            self._ops.linear(normed, own.qkv, own.qkv_bias),
            self._angles.cos,
            self._angles.sin,
            rows,
            layer.keys,
            layer.values,
            self._heads,
            own.q_norm,
            own.k_norm,
            self._eps,
        )
        return attention.attend(layer.index, query, self._scale).flatten(1)

    def _feed(self, layer: Layer, attended: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention's output and the residual -> the MLP's output and the residual before it, [rows, hidden] each."""
        own = layer.weights
        x = self._ops.linear(attended, own.o, own.o_bias)
        normed, residual = self._ops.add_norm(x, residual, own.post_norm, self._eps)
        inner = self._ops.gated_linear(normed, own.gate_up, own.gate_up_bias)
        return self._ops.linear(inner, own.down, own.down_bias), residual
