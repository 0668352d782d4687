"""Which runner computes a model: the one registry. CUDA's is imported by name, because Triton is not everywhere."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from chatserve.model.kernels import make_kernel
from chatserve.model.loaded import LoadedModel
from chatserve.model.runner import HostRunner, Runner

CUDA = "chatserve.model.cuda_runner"


def host_runner(model: LoadedModel, kv: torch.Tensor, worker: ThreadPoolExecutor) -> Runner:
    """A runner on the CPU. kv: the arena [slots, rows, layers, 2, kv_heads, head_dim]."""
    return HostRunner(model.weights.over(kv), make_kernel(kv), slots=len(kv), worker=worker)


def cuda_runner(
    model: LoadedModel,
    kv: torch.Tensor,
    worker: ThreadPoolExecutor,
    *,
    chunk_tokens: int,
    most_sequences: int,
    most_rows: int,
    scratch: int,
    progress: Callable[[int, int], None],
) -> Runner:
    """A runner on a GPU, its decode steps captured where the model is the fused decoder's.

    chunk_tokens: rows of a slot mapped at a time.  most_sequences, most_rows: of a step.
    scratch: a slot of which the first row is mapped and nobody's.
    progress: told how far the captures are, of how far.
    """
    module: Any = importlib.import_module(CUDA)
    runner: Runner = worker.submit(
        module.open_runner,
        model,
        kv,
        worker,
        chunk_tokens=chunk_tokens,
        most_sequences=most_sequences,
        most_rows=most_rows,
        scratch=scratch,
        progress=progress,
    ).result()
    return runner
