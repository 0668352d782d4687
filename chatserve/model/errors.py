"""What can go wrong in this room, drawn as one tree."""

from __future__ import annotations

from collections.abc import Sequence


class ModelError(Exception):
    """The root of every error this room raises about the outside world."""


class ModelNotFound(ModelError):
    """The source names no folder, file or hub repository that can be read."""


class UnsupportedModel(ModelError):
    """The model's architecture or settings cannot be computed faithfully here; the message says which."""


class IncompleteModel(ModelError):
    """The checkpoint and the architecture do not hold the same tensors; the message names them."""


class DemoUnavailable(ModelError):
    """The demo model could not be fetched, or is not the one expected."""


class BadLogits(ModelError):
    """The model gave logits for some samples that are not finite numbers; the other samples are good.

    rows: the bad ones, as indices into the batch's samples.
    tokens: one id per sample, -1 for the bad ones.
    """

    def __init__(self, rows: Sequence[int], tokens: Sequence[int]) -> None:
        self.rows = tuple(rows)
        self.tokens = list(tokens)
        super().__init__(f"the model's logits are not finite for samples {list(self.rows)} of {len(tokens)}")
