"""A model ready to run, and what is told of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from chatserve.model.sampling import SamplingDefaults
from chatserve.model.spec import ModelSpec
from chatserve.model.step import Weights


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model on its device whose attention reads slots; and what the house needs to know of it."""

    weights: Weights
    spec: ModelSpec
    device: torch.device


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a model before its weights are: the name users see, and what its settings say."""

    name: str
    end_ids: tuple[int, ...]
    defaults: SamplingDefaults
    max_len: int


@dataclass(frozen=True, slots=True)
class KVShape:
    """What the arena must hold for each token."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int


def model_spec(held: KVShape, vocab_size: int, dtype: torch.dtype, known: Known) -> ModelSpec:
    """All that is told of a model."""
    return ModelSpec(
        name=known.name,
        layers=held.layers,
        heads=held.heads,
        kv_heads=held.kv_heads,
        head_dim=held.head_dim,
        vocab_size=vocab_size,
        max_len=known.max_len,
        dtype=str(dtype).removeprefix("torch."),
        end_ids=known.end_ids,
        defaults=known.defaults,
    )
