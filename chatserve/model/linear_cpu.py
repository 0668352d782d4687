"""Matrix products on the CPU, in the way that is fastest for their number of rows.

A step that only decodes multiplies each weight matrix by a handful of rows. Asked for `rows @ weight.T`, the BLAS
inside torch reads the weights with one thread; asked for `weight @ rows.T` with all of them, from two rows up. For more
rows oneDNN is faster than that BLAS, for prompts too; torch asks it by itself in 16 bits but not in float32. The sums
are the same.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import linear, pad

FEW = 4
"""Up to this many rows the other order is faster (measured on two cores, weights of 576 x 192 … 49,152)."""

STEP = 16
"""Of the numbers of rows that are multiplied at once, beyond the first."""


class CpuLinear(nn.Linear):
    """A linear layer that shares the parameters of another; for use without gradients."""

    def __init__(self, other: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features = other.in_features
        self.out_features = other.out_features
        self.weight = other.weight
        self.bias = other.bias

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """[..., in_features] -> [..., out_features]."""
        rows = input.numel() // self.in_features
        if not 0 < rows <= FEW:
            return many_rows(input, self.weight, self.bias)
        flat = input.reshape(rows, self.in_features)
        if rows == 1:
            flat = torch.cat([flat, flat])
        product = torch.mm(self.weight, flat.t()).t()[:rows].contiguous()
        if self.bias is not None:
            product += self.bias
        return product.view(*input.shape[:-1], self.out_features)


def many_rows(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """What `linear` gives: by oneDNN for float32 where this torch has it."""
    flat = input.reshape(-1, input.shape[-1])
    rows, more = len(flat), in_steps(len(flat)) - len(flat)
    padded = pad(flat, (0, 0, 0, more)) if more else flat  # padding by nothing is a copy
    if weight.dtype != torch.float32 or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        product = linear(padded, weight, bias)
    else:
        product = torch.ops.mkldnn._linear_pointwise(padded, weight, bias, "none", [], "")
    return product[:rows].view(*input.shape[:-1], len(weight))


def in_steps(rows: int) -> int:
    """How many rows are multiplied for so many. oneDNN keeps a program for each number of rows and each weight's shape,
    of some hundred kilobytes: for every number of a step there is, that would come to more than the weights.
    """
    return rows if rows <= STEP else -(-rows // STEP) * STEP


def speed_up_linears(module: nn.Module) -> None:
    """Put a CpuLinear in the place of every plain linear layer inside the module."""
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                setattr(parent, name, CpuLinear(child))
