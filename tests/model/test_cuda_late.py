"""Late positions on a GPU: half precision is as good at the end of a long conversation as at its beginning."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from chatserve.model.device_inputs import device_inputs
from chatserve.model.kernels import choose_kernels
from chatserve.model.loaded import LoadedModel
from tests.model.fused_tiny import fused
from tests.model.tiny import make_batch, tiny_config, tiny_module

pytestmark = pytest.mark.gpu
LENGTHS = (128, 300, 4_000, 16_000)
MOST = 16_384


def last_logits(model: LoadedModel, text: list[int]) -> torch.Tensor:
    """A cached prefix in chunks, a tail of nine, then one token by the decode kernel."""
    spec = model.spec
    shape = (2, MOST, spec.layers, 2, spec.kv_heads, spec.head_dim)
    arena = torch.zeros(shape, dtype=getattr(torch, spec.dtype), device="cuda")
    kernels = choose_kernels(arena, heads=spec.heads, chunk_tokens=256, most_rows=4)
    network, newest = model.weights.over(arena), torch.zeros(2, dtype=torch.int64, device="cuda")
    cuts = [*range(0, len(text) - 10, 2_000), len(text) - 10, len(text) - 1, len(text)]
    with torch.inference_mode():
        for start, end in itertools.pairwise(cuts):
            batch = make_batch([(1, start, text[start:end])])
            inputs = device_inputs(batch, newest)
            logits = network.logits(inputs.rows, kernels.step.step(batch), inputs.sampled)
    return logits[0].float()


def test_the_error_does_not_grow_with_the_length() -> None:
    """A42."""
    config = tiny_config("llama", max_position_embeddings=MOST, num_hidden_layers=1, initializer_range=0.4, head_dim=64)
    module = tiny_module(config)
    exact = fused(module, device="cuda", max_len=MOST)
    rough = fused(module, device="cuda", dtype=torch.bfloat16, max_len=MOST)
    text = random.Random(1).choices(range(3, 97), k=max(LENGTHS))
    for length in LENGTHS:
        expected = last_logits(exact, text[:length])
        error = (last_logits(rough, text[:length]) - expected).abs().mean() / expected.std()
        assert error < 0.03, f"at {length} tokens"
