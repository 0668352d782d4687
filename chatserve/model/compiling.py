# mypy: allow-untyped-defs, allow-untyped-calls
"""Compiling the Triton kernels of many steps side by side: each compiled where it is launched, they would wait for one
another.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from triton import AsyncCompileMode
from triton.runtime.jit import JITFunction


def compile_ahead(steps: Iterable[Callable[[], object]]) -> None:
    """Compile what these steps would launch, and launch none of it; so what they compute means nothing.

    An error is left to the launch that will meet it again. No other thread may launch Triton kernels meanwhile.
    """
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="compile")
    with pool, only_compiling(), AsyncCompileMode(pool, ignore_errors=True):
        for step in steps:
            step()


@contextmanager
def only_compiling() -> Iterator[None]:
    """Every launch becomes what Triton calls a warm-up: the same key in the same cache, and no launch."""
    launch = JITFunction.run

    def warm_up(self, *arguments, grid, warmup, **options):
        del warmup
        return launch(self, *arguments, grid=grid, warmup=True, **options)

    JITFunction.run = warm_up
    try:
        yield
    finally:
        JITFunction.run = launch
