"""A decoder's operations: the small ones between matrix products, each of which one kernel can do, and the products."""

from __future__ import annotations

from typing import Protocol

import torch

from chatserve.model.step import StepRows


class Ops(Protocol):
    """One way to compute them. Sums and angles are float32 inside; what comes out has the dtype of what went in."""

    def norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """RMSNorm. x: [rows, hidden]; weight: [hidden]."""
        ...

    def add_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(norm(sum), sum) of sum = x + residual, rounded to their dtype. x, residual: [rows, hidden]."""
        ...

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
        """Rotate queries and keys by their positions, and write keys and values into their slots.

        qkv: [rows, (heads + 2 * kv_heads) * head_dim], all query heads first.
        cos, sin: float32 [max_len, head_dim // 2]; a head's first half is rotated against its second.
        keys, values: one layer of the arena [slots, rows, kv_heads, head_dim]; a token's row is its position.
        q_norm, k_norm: [head_dim], the weights of an RMSNorm over each head before it is rotated; None: no such norm.
        Returns the queries [rows, heads, head_dim].
        """
        ...

    def linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """x @ weight.T + bias. x: [rows, k]; weight: [n, k]; gives [rows, n]."""
        ...

    def gated_linear(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """`gated` of `linear`. weight: [2 * inter, k], gate first; gives [rows, inter]."""
        ...

    def gated(self, gate_up: torch.Tensor) -> torch.Tensor:
        """silu(gate) * up. gate_up: [rows, 2 * inter], gate first. Returns [rows, inter]."""
        ...


class MatvecOps(Protocol):
    """Products with a single row, which are bound by reading the weight; what stands around them comes in one kernel.

    x, residual: [1, hidden]; residual None: there is none yet, and x is the sum. Sums are rounded as by `Ops.add_norm`.
    """

    def norm_matvec(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        norm_weight: torch.Tensor,
        eps: float,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(norm(sum) @ weight.T + bias, sum). weight: [n, hidden]; gives [1, n] and [1, hidden]."""
        ...

    def matvec(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """x @ weight.T + bias. x: [1, k]; weight: [n, k]; gives [1, n]."""
        ...

    def norm_gated_matvec(
        self, x: torch.Tensor, residual: torch.Tensor, norm_weight: torch.Tensor, eps: float, weight: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """(silu(gate) * up, sum), the halves of norm(sum) @ weight.T. weight: [2 * inter, hidden]; gives [1, inter]."""
        ...
