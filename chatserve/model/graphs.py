"""Steps captured in CUDA graphs: one launch for a whole step.

Slots are stable addresses, and what changes from step to step (ids, positions, slots, draws) is read from memory. So a
graph is captured once and replayed for whatever sequences there are; chunks may be mapped and unmapped between. A step
that is smaller than its graph fills the rest with a scratch slot, whose one row is written and read by nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from chatserve.model.batch import Batch
from chatserve.model.device_inputs import Drawing
from chatserve.model.draw_triton import DrawWorkspace, draw_tokens
from chatserve.model.step import Network


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

    def capture(self, size: int, pool: Any) -> None:
        """Capture one size. pool: memory that graphs share, because they never run at once."""
        ...

    def fits(self, batch: Batch) -> bool:
        """Whether the step is of this kind and not too large."""
        ...

    def replay(self, batch: Batch) -> Outcome:
        """Queue the step. What it returns holds this step's values until the next replay is queued."""
        ...


def capture_all(kinds: Sequence[StepGraphs], progress: Callable[[int, int], None]) -> None:
    """Capture every kind, its largest size first: the others then need no memory of their own.

    progress: told how many are done, of how many.
    """
    pool = torch.cuda.graph_pool_handle()
    todo = [(kind, size) for kind in kinds for size in sorted(kind.sizes, reverse=True)]
    for done, (kind, size) in enumerate(todo):
        progress(done, len(todo))
        kind.capture(size, pool)
    progress(len(todo), len(todo))


def capture_step(compute: Callable[[torch.Tensor], Outcome], inputs: torch.Tensor, pool: Any) -> Captured:
    """Capture one step over these inputs, on a stream of its own."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        compute(inputs)  # compiles and allocates what a capture cannot
        # The mapper's calls in another thread are none of this capture's business.
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        outcome = compute(inputs)
        graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return Captured(graph, inputs, outcome)


def draw(logits: torch.Tensor, drawing: Drawing, newest: torch.Tensor, workspace: DrawWorkspace) -> torch.Tensor:
    """A token a row, written into `newest` too."""
    return draw_tokens(logits, drawing.temperatures, drawing.keys, drawing.slots, newest, workspace)
