"""The fused decoder by its Triton kernels, interpreted where there is no GPU: the same logits as transformers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from chatserve.model.fused import DeviceOps, FusedWeights
from chatserve.model.matvec_triton import MatvecTiling, TritonMatvecs
from chatserve.model.ops_triton import TritonOps
from tests.model.fused_tiny import Rig, fused, lively_module

TEXTS = {slot: [(7 * slot + 5 * place) % 90 + 3 for place in range(5)] for slot in (4, 0)}
STEPS = [{4: (0, 3), 0: (0, 1)}, {0: (1, 2)}, {4: (3, 4), 0: (2, 3)}]
SOME = ("llama, every bias", "qwen2, tied, yarn", "qwen3, tied, biases, yarn")
"""Interpreted kernels are slow; compiled ones compute every member, in tests/model/test_decoder.py."""
FEW_PROGRAMS = MatvecTiling(rows=32, columns=128, warps=4, stages=1)
"""Of which each takes long, however little it computes."""


@pytest.mark.parametrize("name", SOME)
def test_its_kernels_give_the_logits_of_transformers(name: str, device: torch.device) -> None:
    """Prompts, decode rows, mixed steps and a single row, to 1e-4 in float32."""
    module = lively_module(name)
    model = fused(module, device=str(device))
    assert isinstance(model.weights, FusedWeights)
    device_ops = DeviceOps(TritonOps(), TritonMatvecs(FEW_PROGRAMS))
    rig = Rig(replace(model, weights=replace(model.weights, device_ops=device_ops)))
    with torch.inference_mode():
        expected = {slot: module(input_ids=torch.tensor([text])).logits[0] for slot, text in TEXTS.items()}
    for cuts in STEPS:
        wanted = torch.stack([expected[slot][end - 1] for slot, (_, end) in cuts.items()])
        torch.testing.assert_close(rig.cut(TEXTS, cuts), wanted, atol=1e-4, rtol=0)
