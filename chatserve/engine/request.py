"""A request on its way through the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import cast

import numpy as np
import numpy.typing as npt

from chatserve.engine.messages import Finish
from chatserve.model.sampling import SamplingParams
from vtensor.pool import VTensor
from vtensor.reuse import Reuse

Tokens = npt.NDArray[np.int32]


class Status(Enum):
    """WAITING for memory or a place; ADMITTED has asked for memory; RUNNING; ENDED but not yet told what was kept."""

    WAITING = auto()
    ADMITTED = auto()
    RUNNING = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Request:
    """Computed tokens chase known ones: a new prompt, a returning turn and a decode differ only in how far they are.

    computed: tokens whose KV is written by steps that ended.  in_flight: tokens that launched steps are computing.
    coming: new tokens that those steps will bring.
    found: what its first admission found recorded.
    label: what its vTensor is called in pictures.
    warms: it generates nothing, and is dropped where another would be preempted.
    generated: tokens sampled, an end token counted.
    finish: how it ended by itself; last: the token that came with it, both to be told.
    stop_at: output tokens to keep, once whoever asked wants it to end.
    trusted: whether its numbers may be recorded.
    """

    id: str
    tenant: str
    prompt: Tokens
    params: SamplingParams
    priority: int
    arrival: int
    hold: bool
    reuse: bool
    warms: bool = False
    label: str = ""
    output: list[int] = field(default_factory=list)
    status: Status = Status.WAITING
    vtensor: VTensor | None = None
    computed: int = 0
    in_flight: int = 0
    coming: int = 0
    found: Reuse | None = None
    generated: int = 0
    finish: Finish | None = None
    last: tuple[int, ...] = ()
    stop_at: int | None = None
    trusted: bool = True

    @property
    def prompt_ids(self) -> Sequence[int]:
        """The prompt, for those who only read numbers in order."""
        return cast(Sequence[int], self.prompt)

    @property
    def known(self) -> int:
        """Prompt and output tokens so far."""
        return len(self.prompt) + len(self.output)

    @property
    def remaining(self) -> int:
        """Tokens to compute after the steps in flight, which will have brought their tokens by then."""
        return self.known + self.coming - self.computed - self.in_flight

    @property
    def goes_on(self) -> bool:
        """Whether it has its memory and nobody has asked it to end."""
        return self.status is Status.RUNNING and self.stop_at is None

    @property
    def most_rows(self) -> int:
        """Rows it can ever need: its last token is never computed."""
        return len(self.prompt) + self.params.max_tokens - 1

    @property
    def place(self) -> tuple[int, int]:
        """Its order: first come first served within a priority, lower priorities first."""
        return self.priority, self.arrival

    def tokens(self, start: int, stop: int) -> Tokens:
        """Known token ids from `start` to `stop`. Those of the prompt alone are not copied."""
        length = len(self.prompt)
        if stop <= length:
            return self.prompt[start:stop]
        output = np.array(self.output[max(0, start - length) : max(0, stop - length)], dtype=np.int32)
        return np.concatenate([self.prompt[start:stop], output])
