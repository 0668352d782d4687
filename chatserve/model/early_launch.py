# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
"""Starting a Triton kernel while the one before it in the stream still runs: its launch and first reads cost no time.

What a kernel does before `await_previous` may touch nothing that another kernel writes, or still reads: only what is
constant, as weights are. Each kernel launched so waits on every path, so that all that came before it is over too; a
kernel launched the common way waits for the end of the one before it by itself.
"""

from __future__ import annotations

import functools

import torch
import triton
import triton.language as tl

CAPABILITY = (9, 0)
"""The first devices that can."""


@functools.cache
def starts_early(device: torch.device) -> bool:
    """Whether kernels of a device can be launched so."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= CAPABILITY


def launch_options(early: bool, device: torch.device) -> dict[str, bool]:
    """What to launch a kernel with that has EARLY among its arguments. early: where the device can."""
    if early and starts_early(device):
        return {"EARLY": True, "launch_pdl": True}
    return {"EARLY": False}


@triton.jit
def let_next_start(EARLY: tl.constexpr):
    """The next kernel's programs may take what room this one's leave, once all of this one's run."""
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def await_previous(EARLY: tl.constexpr):
    """Until the kernel before this one is over, and what it wrote is seen."""
    if EARLY:
        tl.extra.cuda.gdc_wait()


@triton.jit
def bring_to_cache(lines):
    """Ask for cache lines by their addresses, and go on at once. Not interpreted: only where kernels start early."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;", "=r,l", [lines.to(tl.int64)], dtype=tl.int32, is_pure=False, pack=1
    )
