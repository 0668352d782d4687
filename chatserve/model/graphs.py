"""Steps captured in CUDA graphs: one launch for a whole step.

Slots are stable addresses, and what changes from step to step (ids, positions, slots, draws) is read from memory. So a
graph is captured once and replayed for whatever sequences there are; chunks may be mapped and unmapped between. A step
that is smaller than its graph fills the rest with a scratch slot, whose one row is written and read by nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from chatserve.model.batch import Batch
from chatserve.model.device_inputs import Drawing
from chatserve.model.draw_triton import DrawWorkspace, draw_tokens
from chatserve.model.step import Network
from chatserve.model.tensor_sources import no_progress

COMPILERS = 8
"""Threads."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step computed for its samples, on the device. ids: of the sampled rows.  slots: of their sequences."""

    ids: torch.Tensor
    slots: torch.Tensor
    logits: torch.Tensor
    tokens: torch.Tensor


@dataclass(frozen=True, slots=True)
class Captured:
    """One graph and its memory. inputs: int64, what the host tells it."""

    graph: torch.cuda.CUDAGraph
    inputs: torch.Tensor
    outcome: Outcome

    def replay(self, inputs: torch.Tensor) -> Outcome:
        """Queue the step. What it returns holds this step's values until the next replay is queued."""
        self.inputs.copy_(inputs)
        self.graph.replay()
        return self.outcome


@dataclass(frozen=True, slots=True)
class Stage:
    """What captured steps of every kind work on.

    newest: int64 [slots]: read where an id is COMING, written with each step's tokens.
    scratch: a slot of which the first row is mapped and nobody's.
    """

    network: Network
    workspace: DrawWorkspace
    newest: torch.Tensor
    scratch: int

    @property
    def most_sequences(self) -> int:
        """Of a step."""
        return len(self.workspace.scores)

    def draw(self, logits: torch.Tensor, drawing: Drawing) -> torch.Tensor:
        """A token a row, written into `newest` too."""
        return draw(logits, drawing, self.newest, self.workspace)


class StepGraphs(Protocol):
    """Captured steps of one kind."""

    @property
    def sizes(self) -> Sequence[int]:
        """What to capture."""
        ...

    def compile(self, size: int) -> None:
        """Compute one size once, which compiles its kernels. Several threads may, on one stream."""
        ...

    def capture(self, size: int, pool: Any) -> None:
        """Capture one size, on the current stream. pool: memory that graphs share, because they never run at once."""
        ...

    def fits(self, batch: Batch) -> bool:
        """Whether the step is of this kind and not too large."""
        ...

    def replay(self, batch: Batch) -> Outcome:
        """Queue the step. What it returns holds this step's values until the next replay is queued."""
        ...


def every_size(kinds: Sequence[StepGraphs]) -> list[tuple[StepGraphs, int]]:
    """Of every kind, the largest first: in its memory the others find theirs."""
    return [(kind, size) for kind in kinds for size in sorted(kind.sizes, reverse=True)]


def capture_all(
    todo: Sequence[tuple[StepGraphs, int]], device: torch.device, progress: Callable[[int, int], None] = no_progress
) -> None:
    """Compile what these need, then capture them in this order, on one stream: another's memory could not be shared.

    progress: told how many are compiled and how many captured, together, of how many.
    """
    if not todo:
        return
    pool, stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    count = len(todo)
    progress(0, 2 * count)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for done in compiled(todo, stream):
            progress(done, 2 * count)
        for done, (kind, size) in enumerate(todo, start=1):
            kind.capture(size, pool)
            progress(count + done, 2 * count)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.empty_cache()  # what was computed without a graph has left its memory behind


def compiled(todo: Sequence[tuple[StepGraphs, int]], stream: torch.cuda.Stream) -> Iterator[int]:
    """How many are, one by one. In several threads, because a compiler uses one core; the first in this one, which then
    has all that a capture may not begin with.
    """

    def compile_one(kind: StepGraphs, size: int) -> None:
        with torch.inference_mode(), torch.cuda.stream(stream):
            kind.compile(size)

    # Neighbours need the same kernels: two threads that began with them would both compile each.
    first, *others = [each for start in range(COMPILERS) for each in todo[start::COMPILERS]]
    compile_one(*first)
    with ThreadPoolExecutor(COMPILERS, thread_name_prefix="compiler") as threads:
        for done, other in enumerate([threads.submit(compile_one, *each) for each in others], start=2):
            other.result()
            yield done


def capture_step(compute: Callable[[torch.Tensor], Outcome], inputs: torch.Tensor, pool: Any) -> Captured:
    """Capture one step over these inputs, on the current stream; it has been computed before."""
    graph = torch.cuda.CUDAGraph()
    # The mapper's calls in another thread are none of this capture's business.
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    outcome = compute(inputs)
    graph.capture_end()
    return Captured(graph, inputs, outcome)


def draw(logits: torch.Tensor, drawing: Drawing, newest: torch.Tensor, workspace: DrawWorkspace) -> torch.Tensor:
    """A token a row, written into `newest` too."""
    return draw_tokens(logits, drawing.temperatures, drawing.keys, drawing.slots, newest, workspace)
