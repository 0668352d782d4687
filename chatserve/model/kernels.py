"""Which attention kernels read an arena: the one registry. What is optional is imported here, by name."""

from __future__ import annotations

import importlib
import logging
from dataclasses import dataclass

import torch

from chatserve.model.attention_fa3 import Fa3Kernel, find_operator
from chatserve.model.attention_flash import FlashKernel
from chatserve.model.attention_mixed import DecodeRows, MixedKernel
from chatserve.model.attention_sdpa import SdpaKernel
from chatserve.model.step import Kernel

log = logging.getLogger(__name__)

DECODE = "chatserve.model.attention_decode"
"""Imported by name, because Triton is not installed everywhere."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """step: for any step.  prompts: for prompt rows.  decode: for sequences of one new row, where there is one."""

    step: Kernel
    prompts: Kernel
    decode: DecodeRows | None


def make_kernel(kv: torch.Tensor) -> Kernel:
    """The kernel that every arena of its device, dtype and shape can be read with.

    kv: the arena [slots, rows, layers, 2, kv_heads, head_dim].
    """
    return FlashKernel(kv) if FlashKernel.supports(kv) else SdpaKernel(kv)


def choose_kernels(kv: torch.Tensor, *, heads: int, chunk_tokens: int, most_rows: int) -> Kernels:
    """The fastest kernels there are for an arena, and in the log why they and no others.

    heads: of a query.  chunk_tokens: rows mapped at a time.  most_rows: sequences in a step.
    """
    if kv.device.type != "cuda":
        kernel = make_kernel(kv)
        return Kernels(kernel, kernel, None)
    prompts = prompt_kernel(kv, heads, chunk_tokens)
    decode = decode_kernel(kv, heads, most_rows)
    if decode is None:
        return Kernels(prompts, prompts, None)
    return Kernels(MixedKernel(decode, prompts, kv.device), prompts, decode)


def prompt_kernel(kv: torch.Tensor, heads: int, chunk_tokens: int) -> Kernel:
    """FlashAttention-3, FlashAttention-2, or torch's own attention at last."""
    against = Fa3Kernel.refuses(kv, chunk_tokens)
    operator = None if against else find_operator()
    if operator is not None:
        log.info("prompt rows: FlashAttention-3")
        return Fa3Kernel(kv, operator, heads)
    kernel = make_kernel(kv)
    log.info("prompt rows: %s, because %s", type(kernel).__name__, against or "no FlashAttention-3 is installed")
    return kernel


def decode_kernel(kv: torch.Tensor, heads: int, most_rows: int) -> DecodeRows | None:
    """The split-KV kernel over slots."""
    try:
        module = importlib.import_module(DECODE)
    except ImportError as error:
        log.info("decode rows: like prompt rows, because Triton is missing (%s)", error)
        return None
    if not module.DecodeKernel.supports(kv):
        log.info("decode rows: like prompt rows, because no Triton kernel reads %s x %s", kv.dtype, kv.shape[-1])
        return None
    log.info("decode rows: the split-KV kernel over slots")
    decode: DecodeRows = module.DecodeKernel(kv, heads, most_rows=most_rows)
    return decode
