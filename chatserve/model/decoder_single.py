"""The fused decoder for a single row: products that run at the memory's speed, each with its norm inside."""

from __future__ import annotations

import torch
from torch.nn.functional import embedding

from chatserve.model.decoder import Angles, layers_over
from chatserve.model.decoder_weights import DecoderWeights
from chatserve.model.ops import MatvecOps, Ops
from chatserve.model.step import Network, StepAttention, StepRows


class SingleDecoder:
    """See Network. One row, and no bias in the MLP."""

    def __init__(
        self, weights: DecoderWeights, angles: Angles, ops: Ops, products: MatvecOps, kv: torch.Tensor
    ) -> None:
        assert self.computes(weights)
        self._weights = weights
        self._angles = angles
        self._ops = ops
        self._products = products
        self._layers = layers_over(weights, kv)

    @staticmethod
    def computes(weights: DecoderWeights) -> bool:
        """Whether there are operations for such weights."""
        return not weights.shape.mlp_bias

    def logits(self, rows: StepRows, attention: StepAttention, sampled: torch.Tensor | None) -> torch.Tensor:
        """See Network."""
        ops, products, weights, shape = self._ops, self._products, self._weights, self._weights.shape
        scale = shape.head_dim**-0.5
        x = embedding(rows.ids, weights.embed)
        residual = None
        for layer in self._layers:
            own = layer.weights
            qkv, residual = products.norm_matvec(x, residual, own.input_norm, shape.eps, own.qkv, own.qkv_bias)
            query = ops.rope_write(
                qkv,
                self._angles.cos,
                self._angles.sin,
                rows,
                layer.keys,
                layer.values,
                shape.heads,
                own.q_norm,
                own.k_norm,
                shape.eps,
            )
            attended = attention.attend(layer.index, query, scale).flatten(1)
            x = products.matvec(attended, own.o, own.o_bias)
            inner, residual = products.norm_gated_matvec(x, residual, own.post_norm, shape.eps, own.gate_up)
            x = products.matvec(inner, own.down, own.down_bias)
        if sampled is not None and sampled.shape[0] == 0:
            return weights.head.new_empty(0, weights.head.shape[0])
        logits, _ = products.norm_matvec(x, residual, weights.norm, shape.eps, weights.head, None)
        return logits


class ByRows:
    """See Network. A step of one row goes one way, every other the other."""

    def __init__(self, one: Network, many: Network) -> None:
        self._one = one
        self._many = many

    def logits(self, rows: StepRows, attention: StepAttention, sampled: torch.Tensor | None) -> torch.Tensor:
        """See Network."""
        network = self._one if rows.ids.shape[0] == 1 else self._many
        return network.logits(rows, attention, sampled)
