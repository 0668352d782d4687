"""Runs steps of a model over the arena, one at a time and in order, in a thread of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

import torch

from chatserve.model.attention import Kernel
from chatserve.model.batch import Batch
from chatserve.model.errors import BadLogits
from chatserve.model.kernels import make_kernel
from chatserve.model.loader import LoadedModel
from chatserve.model.sampler import NOT_FINITE, sample


class Launched:
    """A step under way."""

    def __init__(self, future: Future[list[int]]) -> None:
        self._future = future

    def done(self) -> bool:
        """Whether it has ended, well or badly, on the device too."""
        return self._future.done()

    def wait(self) -> None:
        """Block until it has ended. Raises nothing: `tokens` says how it ended."""
        wait([self._future])

    def tokens(self) -> list[int]:
        """One id per entry of the batch's samples, in order; waits. Raises what the step raised, BadLogits among it."""
        return self._future.result()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back once it has ended: in the runner's thread, or at once in the caller's if it already has."""
        self._future.add_done_callback(lambda _: callback())


def model_thread() -> ThreadPoolExecutor:
    """The one thread that computes.

    A CPU model is best loaded in it as well: each thread that computes has a pool of its own, and OpenMP lets a pool
    spin between two operations only while it is alone. That halves the time of a small model's step.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="model")


class Runner:
    """kv: the arena [slots, rows, layers, 2, kv_heads, head_dim], any strides in the first two dimensions.

    worker: one thread, in which the model was best loaded too; the runner's own from now on (see `model_thread`).
    The rows that a batch reads and writes are mapped before it is launched and stay so until it is done.
    """

    def __init__(self, model: LoadedModel, kv: torch.Tensor, worker: ThreadPoolExecutor | None = None) -> None:
        spec = model.spec
        assert kv.shape[2:] == (spec.layers, 2, spec.kv_heads, spec.head_dim), f"no arena for {spec.name}: {kv.shape}"
        assert kv.dtype == model.module.dtype
        assert kv.device == model.device
        self._model = model
        self._kernel = make_kernel(kv)
        self._worker = worker or model_thread()

    def launch(self, batch: Batch) -> Launched:
        """Queue one step and return at once."""
        return Launched(self._worker.submit(self._step, batch))

    def close(self) -> None:
        """Finish what is queued, then end the thread. Twice is harmless."""
        self._worker.shutdown(wait=True)

    def _step(self, batch: Batch) -> list[int]:
        if self._model.device.type == "cuda":
            torch.cuda.set_device(self._model.device)
        with torch.inference_mode():
            tokens = sample(step_logits(self._model, self._kernel, batch), batch.samples).tolist()
        if self._model.device.type == "cuda":
            torch.cuda.current_stream().synchronize()  # a step without samples has copied nothing back
        bad = [row for row, token in enumerate(tokens) if token == NOT_FINITE]
        if bad:
            raise BadLogits(bad, tokens)
        return tokens


def step_logits(model: LoadedModel, kernel: Kernel, batch: Batch) -> torch.Tensor:
    """Compute all rows of a step, write their K and V; logits [samples, vocab] float32, for the sampled rows only."""
    device = model.device
    ends = list(itertools.accumulate(batch.counts))
    sampled = torch.tensor([ends[each.sequence] - 1 for each in batch.samples], dtype=torch.int64)
    output = model.module(
        input_ids=batch.token_ids.to(device).unsqueeze(0),
        position_ids=batch.positions.to(device).unsqueeze(0),
        use_cache=False,
        logits_to_keep=sampled.to(device),
        attention_step=kernel.step(batch),
    )
    logits: torch.Tensor = output.logits[0]
    return logits.float()
