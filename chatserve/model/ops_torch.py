"""A decoder's small operations in plain torch: any device, any dtype; what the kernels are tested against."""

from __future__ import annotations

import torch
from torch.nn.functional import linear, silu

from chatserve.model.step import StepRows


class TorchOps:
    """See Ops."""

    def norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
        return weight * scaled.to(x.dtype)

    def add_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        total = x + residual
        return self.norm(total, weight, eps), total

    def rope_write(
        self,
        qkv: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        rows: StepRows,
        keys: torch.Tensor,
        values: torch.Tensor,
        heads: int,
        q_norm: torch.Tensor | None,
        k_norm: torch.Tensor | None,
        eps: float,
    ) -> torch.Tensor:
        kv_heads, head_dim = keys.shape[2:]
        query, key, value = qkv.view(qkv.shape[0], -1, head_dim).split_with_sizes([heads, kv_heads, kv_heads], 1)
        if q_norm is not None:
            query = self.norm(query, q_norm, eps)
        if k_norm is not None:
            key = self.norm(key, k_norm, eps)
        angles = cos[rows.positions].unsqueeze(1), sin[rows.positions].unsqueeze(1)
        places = (rows.slots, rows.positions)
        keys.index_put_(places, rotated(key, *angles))
        values.index_put_(places, value)
        return rotated(query, *angles)

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return linear(x, weight, bias)

    def gated_linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return self.gated(linear(x, weight, bias))

    def gated(self, gate_up: torch.Tensor) -> torch.Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        return silu(gate) * up


class TorchMatvecs:
    """See MatvecOps."""

    def __init__(self) -> None:
        self._ops = TorchOps()

    def norm_matvec(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        norm_weight: torch.Tensor,
        eps: float,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        total = x if residual is None else x + residual
        return linear(self._ops.norm(total, norm_weight, eps), weight, bias), total

    def matvec(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        return linear(x, weight, bias)

    def norm_gated_matvec(
        self, x: torch.Tensor, residual: torch.Tensor, norm_weight: torch.Tensor, eps: float, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        gate_up, total = self.norm_matvec(x, residual, norm_weight, eps, weight, None)
        return self._ops.gated(gate_up), total


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """x: [rows, heads, head_dim]; cos, sin: [rows, 1, head_dim // 2]."""
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)
