"""A42: rotary angles do not lose their way in long conversations."""

from __future__ import annotations

import itertools
import random

import torch

from chatserve.model.loaded import LoadedModel
from tests.model.tiny import logits_of, make_batch, make_tiny, poisoned_arena, tiny_config

LENGTHS = (128, 300, 4_000, 16_000)
CHUNK = 2_000


def last_logits(model: LoadedModel, text: list[int]) -> torch.Tensor:
    """A cached prefix, then the tail in uneven chunks."""
    arena = poisoned_arena(model, 1, len(text))
    cuts = [*range(0, len(text) - 37, CHUNK), len(text) - 37, len(text) - 9, len(text)]
    for start, end in itertools.pairwise(cuts):
        logits = logits_of(model, arena, make_batch([(0, start, text[start:end])]))
    return logits[0]


def test_the_error_of_bfloat16_does_not_grow_with_the_length():
    """A42: against float32, at 128, 300, 4,000 and 16,000 tokens."""
    config = tiny_config("llama", max_position_embeddings=16_384, num_hidden_layers=1, initializer_range=0.4)
    exact = make_tiny(config, max_len=16_384).model
    rough = make_tiny(config, max_len=16_384, dtype=torch.bfloat16).model
    rough.weights.module.load_state_dict(exact.weights.module.state_dict())
    text = random.Random(1).choices(range(3, 97), k=max(LENGTHS))
    for length in LENGTHS:
        expected = last_logits(exact, text[:length])
        error = (last_logits(rough, text[:length]) - expected).abs().mean() / expected.std()
        assert error < 0.03, f"at {length} tokens"
