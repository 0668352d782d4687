"""Which attention kernel reads an arena: the one registry, by name."""

from __future__ import annotations

from collections.abc import Callable

import torch

from chatserve.model.attention import Kernel
from chatserve.model.attention_flash import FlashKernel
from chatserve.model.attention_sdpa import SdpaKernel

KERNELS: dict[str, Callable[[torch.Tensor], Kernel]] = {"flash": FlashKernel, "sdpa": SdpaKernel}


def kernel_name(kv: torch.Tensor) -> str:
    """The fastest kernel that can read this arena's device, dtype and shape."""
    return "flash" if FlashKernel.supports(kv) else "sdpa"


def make_kernel(kv: torch.Tensor) -> Kernel:
    """kv: the arena [slots, rows, layers, 2, kv_heads, head_dim]."""
    return KERNELS[kernel_name(kv)](kv)
