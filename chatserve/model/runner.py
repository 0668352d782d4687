"""Runs steps of a model over the arena, one at a time and in order, in a thread of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Protocol

import torch

from chatserve.model.batch import COMING, Batch
from chatserve.model.errors import BadLogits
from chatserve.model.sampler import NOT_FINITE, sample
from chatserve.model.step import Kernel, Network, StepRows


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


class Runner(Protocol):
    """What the engine launches steps on. Steps end in the order in which they were launched."""

    def launch(self, batch: Batch) -> Launched:
        """Queue one step and return at once.

        The rows that it reads and writes are mapped before it is launched and stay so until it is done. An id that is
        COMING is the token that an earlier step, launched already, samples for the same slot.
        """
        ...

    def trim(self) -> None:
        """Give memory back that steps have left for later ones."""
        ...

    def close(self) -> None:
        """Finish what is queued, then end the thread. Twice is harmless."""
        ...


def model_thread() -> ThreadPoolExecutor:
    """The one thread that computes.

    A CPU model is best loaded in it as well: each thread that computes has a pool of its own, and OpenMP lets a pool
    spin between two operations only while it is alone. That halves the time of a small model's step.
    """
    return ThreadPoolExecutor(1, thread_name_prefix="model")


class HostRunner:
    """Computes where it is called: a step is done when its thread is.

    slots: of the arena.  worker: one thread, in which the model was best loaded too; the runner's own from now on.
    """

    def __init__(self, network: Network, kernel: Kernel, *, slots: int, worker: ThreadPoolExecutor) -> None:
        self._network = network
        self._kernel = kernel
        self._newest = torch.zeros(slots, dtype=torch.int64)
        self._worker = worker

    def launch(self, batch: Batch) -> Launched:
        """See `Runner`."""
        return Launched(self._worker.submit(self._step, batch))

    def trim(self) -> None:
        """See `Runner`. The host's allocator gives back by itself."""

    def close(self) -> None:
        """See `Runner`."""
        self._worker.shutdown(wait=True)

    def _step(self, batch: Batch) -> list[int]:
        with torch.inference_mode():
            logits = step_logits(self._network, self._kernel, batch, self._newest)
            slots = sampled_slots(batch)
            tokens = sample(logits.float(), batch.samples, self._newest[slots])
            self._newest[slots] = tokens.clamp(min=0)
        return checked(tokens.tolist())


def step_logits(network: Network, kernel: Kernel, batch: Batch, newest: torch.Tensor) -> torch.Tensor:
    """Compute all rows of a step, write their K and V; logits [samples, vocab], for the sampled rows only.

    newest: int64 [slots], on the model's device: the token that is COMING in each slot.
    """
    ends = list(itertools.accumulate(batch.counts))
    sampled = torch.tensor([ends[each.sequence] - 1 for each in batch.samples], dtype=torch.int64)
    rows = step_rows(batch, newest)
    return network.logits(rows, kernel.step(batch), sampled.to(newest.device))


def step_rows(batch: Batch, newest: torch.Tensor) -> StepRows:
    """The rows of a batch on the device of `newest`, every id known."""
    device = newest.device
    slots = torch.repeat_interleave(torch.tensor(batch.slots), torch.tensor(batch.counts)).to(device)
    ids = batch.token_ids.to(device)
    return StepRows(torch.where(ids == COMING, newest[slots], ids), batch.positions.to(device), slots)


def sampled_slots(batch: Batch) -> torch.Tensor:
    """int64 [samples]: the slot of each."""
    return torch.tensor([batch.slots[each.sequence] for each in batch.samples], dtype=torch.int64)


def checked(tokens: Sequence[int]) -> list[int]:
    """The tokens of a step. Raises BadLogits where there is none for a row."""
    bad = [row for row, token in enumerate(tokens) if token == NOT_FINITE]
    if bad:
        raise BadLogits(bad, list(tokens))
    return list(tokens)
