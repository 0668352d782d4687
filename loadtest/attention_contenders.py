"""The attention kernels that are measured beside one another: each over a lab's sequences, one layer at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import scaled_dot_product_attention

from chatserve.model.attention_decode import DecodeKernel
from chatserve.model.attention_fa3 import Fa3Kernel, Operator, find_operator
from chatserve.model.attention_flash import FlashKernel
from chatserve.model.attention_sdpa import SdpaKernel
from chatserve.model.step import Kernel
from loadtest.attention_lab import Case, Lab

Attend = Callable[[int], torch.Tensor]
"""A layer's attention, output [rows, heads, head_dim]."""
CONTIGUOUS_LAYERS = 4
"""Plain copies of K and V that are read in turn."""


class NotHere(Exception):
    """A contender that this machine or this case has no place for; the message says why."""


def over_slots(kernel: Kernel, lab: Lab, case: Case) -> Attend:
    """One of the server's kernels."""
    step = kernel.step(lab.batch(case))
    return lambda layer: step.attend(layer, lab.query, case.scale)


def fa3_slots(lab: Lab, case: Case) -> Attend:
    """The server's kernel for prompt rows."""
    return over_slots(Fa3Kernel(lab.kv, _operator(lab), lab.query.shape[1]), lab, case)


def fa3_contiguous(lab: Lab, case: Case) -> Attend:
    """FlashAttention-3 by its own heuristic over plain tensors, as if each sequence had a tensor to itself."""
    operator = _operator(lab)
    query = _batched(lab, case)
    copies = [lab.contiguous(case, layer) for layer in range(min(lab.layers, CONTIGUOUS_LAYERS))]

    def attend(layer: int) -> torch.Tensor:
        keys, values = copies[layer % len(copies)]
        causal = case.counts[0] > 1  # a single new row sees everything either way, by a faster kernel
        output: torch.Tensor = operator(query, keys, values, softmax_scale=case.scale, is_causal=causal)[0]
        return output.flatten(0, 1)

    return attend


def fa2_torch(lab: Lab, case: Case) -> Attend:
    """FlashAttention-2 inside torch, over slots."""
    _need_cuda(lab)
    return over_slots(FlashKernel(lab.kv), lab, case)


def split_decode(lab: Lab, case: Case) -> Attend:
    """The server's kernel for decode rows."""
    _need_cuda(lab)
    kernel = DecodeKernel(lab.kv, case.heads, most_rows=case.rows)
    device = lab.kv.device
    plan = kernel.plan(torch.tensor(lab.slots, device=device), torch.tensor(case.lengths, device=device))
    return lambda layer: kernel.attend(plan, layer, lab.query, case.scale)


def paged(_lab: Lab, _case: Case) -> Attend:
    """Only wheels that need another torch, or a compiler, bring a paged kernel: fa3-fwd is built without."""
    raise NotHere("no wheel with a paged kernel runs here (flash-attn and vLLM are not installed)")


def sdpa_slots(lab: Lab, case: Case) -> Attend:
    """The kernel of last resort; on the CPU it shows that a benchmark runs at all."""
    return over_slots(SdpaKernel(lab.kv), lab, case)


def sdpa_contiguous(lab: Lab, case: Case) -> Attend:
    """torch's own attention over plain tensors: what the others are checked against."""
    query = _batched(lab, case).transpose(1, 2)
    (start,), (count,) = set(case.starts), set(case.counts)
    seen = torch.arange(start + count) <= torch.arange(start, start + count).unsqueeze(1)
    seen = seen.to(lab.kv.device)

    def attend(layer: int) -> torch.Tensor:
        keys, values = (each.transpose(1, 2) for each in lab.contiguous(case, layer))
        output = scaled_dot_product_attention(
            query, keys, values, attn_mask=seen, scale=case.scale, enable_gqa=case.heads != case.kv_heads
        )
        return output.transpose(1, 2).flatten(0, 1)

    return attend


def _batched(lab: Lab, case: Case) -> torch.Tensor:
    """[sequences, rows, heads, head_dim]. Raises NotHere for sequences of unequal length."""
    if len(set(case.lengths)) > 1:
        raise NotHere("plain tensors hold sequences of one length")
    return lab.query.view(len(case.counts), case.counts[0], case.heads, case.head_dim)


def _need_cuda(lab: Lab) -> None:
    if lab.kv.device.type != "cuda":
        raise NotHere("it needs a CUDA device")


def _operator(lab: Lab) -> Operator:
    _need_cuda(lab)
    if torch.cuda.get_device_capability()[0] != 9:
        raise NotHere("FlashAttention-3 needs a Hopper GPU")
    found = find_operator()
    if found is None:
        raise NotHere("no FlashAttention-3 is installed (fa3-fwd)")
    return found
