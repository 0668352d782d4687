"""A plan becomes tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from chatserve.engine.scheduler import Row
from chatserve.model.batch import Batch, Sample


def make_batch(rows: Sequence[Row]) -> Batch:
    """The batch of a step whose requests' earlier tokens are all known by now."""
    ids = [row.request.tokens(row.start, row.start + row.count) for row in rows]
    positions = [np.arange(row.start, row.start + row.count) for row in rows]
    samples = [
        Sample(
            sequence=index,
            params=row.request.params,
            step=len(row.request.output),
            prompt_ids=row.request.prompt_ids,
            output_ids=row.request.output,
        )
        for index, row in enumerate(rows)
        if row.samples
    ]
    slots = []
    for row in rows:
        assert row.request.vtensor is not None
        slots.append(row.request.vtensor.slot.index)
    return Batch(
        token_ids=torch.from_numpy(np.concatenate(ids).astype(np.int64)),
        positions=torch.from_numpy(np.concatenate(positions)),
        slots=tuple(slots),
        starts=tuple(row.start for row in rows),
        counts=tuple(row.count for row in rows),
        samples=tuple(samples),
    )
