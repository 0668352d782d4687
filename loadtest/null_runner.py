"""A model that computes nothing: its steps take a set time, and say the given tokens again and again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from chatserve.model.batch import Batch
from chatserve.model.runner import Launched
from chatserve.model.sampling import SamplingDefaults
from chatserve.model.spec import ModelSpec

CONTEXT = 65_536


def null_spec(vocabulary: int) -> ModelSpec:
    """What such a model says of itself: the least KV that there can be."""
    return ModelSpec(
        name="null",
        layers=1,
        heads=1,
        kv_heads=1,
        head_dim=8,
        vocab_size=vocabulary,
        max_len=CONTEXT,
        dtype="float32",
        end_ids=(),
        defaults=SamplingDefaults(),
    )


class NullRunner:
    """tokens: what every answer says.  steps: a second, at most."""

    def __init__(self, tokens: Sequence[int], steps: float) -> None:
        self._tokens = tokens
        self._pause = 1 / steps
        self._due = 0.0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="model")

    def launch(self, batch: Batch) -> Launched:
        """See `Runner`."""
        return Launched(self._worker.submit(self._step, batch))

    def trim(self) -> None:
        """See `Runner`. There is nothing to give back."""

    def close(self) -> None:
        """See `Runner`."""
        self._worker.shutdown(wait=True)

    def _step(self, batch: Batch) -> list[int]:
        now = time.perf_counter()
        time.sleep(max(0.0, self._due - now))
        self._due = max(self._due, now) + self._pause
        return [self._tokens[sample.step % len(self._tokens)] for sample in batch.samples]
