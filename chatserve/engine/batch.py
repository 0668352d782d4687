"""A plan becomes tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from chatserve.engine.request import Tokens
from chatserve.engine.scheduler import Row
from chatserve.model.batch import COMING, Batch, Sample
from chatserve.model.penalties import has_penalties

NOT_KNOWN = np.array([COMING], dtype=np.int32)


def make_batch(rows: Sequence[Row]) -> Batch:
    """The batch of a step. What a row's request does not know yet is the one token that the step before brings."""
    ids: list[Tokens] = []
    slots = []
    for row in rows:
        request, end = row.request, row.start + row.count
        ids.append(request.tokens(row.start, end))
        if end > request.known:
            assert end == request.known + 1
            ids.append(NOT_KNOWN)
        assert request.vtensor is not None
        slots.append(request.vtensor.slot.index)
    positions = [np.arange(row.start, row.start + row.count) for row in rows]
    return Batch(
        token_ids=torch.from_numpy(np.concatenate(ids).astype(np.int64)),
        positions=torch.from_numpy(np.concatenate(positions)),
        slots=tuple(slots),
        starts=tuple(row.start for row in rows),
        counts=tuple(row.count for row in rows),
        samples=tuple(make_sample(index, row) for index, row in enumerate(rows) if row.samples),
    )


def make_sample(index: int, row: Row) -> Sample:
    """The sample of the batch's sequence `index`; its lists are copies, since answers grow while it computes."""
    request = row.request
    coming = row.start + row.count > request.known
    looks_back = has_penalties(request.params)
    return Sample(
        sequence=index,
        params=request.params,
        step=len(request.output) + coming,
        prompt_ids=request.prompt_ids if looks_back else (),
        output_ids=tuple(request.output) if looks_back else (),
        coming=coming,
    )
