"""The fused decoder computes what transformers computes, whatever rows a step is made of."""

from __future__ import annotations

import random

import pytest
import torch
from transformers import PreTrainedModel

from chatserve.model.kernels import make_kernel
from chatserve.model.runner import step_rows
from tests.model.fused_tiny import FUSED, Rig, fused, lively_module, saved
from tests.model.tiny import make_batch, poisoned_arena

TEXTS = {slot: random.Random(slot).choices(range(3, 97), k=100 + 7 * slot) for slot in (4, 0, 2)}
STEPS = [
    {4: (0, 90), 0: (0, 1), 2: (0, 33)},
    {2: (33, 114), 4: (90, 91), 0: (1, 2)},
    {0: (2, 3), 4: (91, 92)},
    {4: (92, 93)},
    {0: (3, 40), 4: (93, 128)},
]
"""Prompts in chunks, a prompt of one token, decode rows, mixed steps, a single row; the slots scrambled."""


def reference(module: PreTrainedModel) -> dict[int, torch.Tensor]:
    """Every text's logits by transformers."""
    with torch.inference_mode():
        return {
            slot: module(input_ids=torch.tensor([text], device=module.device), use_cache=False).logits[0].float().cpu()
            for slot, text in TEXTS.items()
        }


def largest_error(rig: Rig, expected: dict[int, torch.Tensor]) -> float:
    """Over all steps."""
    errors = []
    for cuts in STEPS:
        wanted = torch.stack([expected[slot][end - 1] for slot, (_, end) in cuts.items()])
        errors.append(float((rig.cut(TEXTS, cuts) - wanted).abs().max()))
    return max(errors)


@pytest.mark.parametrize("name", FUSED)
def test_prompt_decode_and_mixed_rows_give_the_logits_of_transformers(tmp_path, name):
    """A43, A45: from a saved folder."""
    module = lively_module(name)
    assert largest_error(Rig(fused(module, saved(module, tmp_path))), reference(module)) < 1e-4


def test_rows_that_are_not_sampled_are_computed_all_the_same():
    module = lively_module("llama")
    rig = Rig(fused(module))
    assert rig.logits(make_batch([(1, 0, TEXTS[4][:50]), (3, 0, TEXTS[0][:1])], sampled=[])).shape == (0, 97)
    assert rig.logits(make_batch([(3, 1, TEXTS[0][1:2])], sampled=[])).shape == (0, 97)
    logits = rig.logits(make_batch([(3, 2, TEXTS[0][2:3]), (1, 50, TEXTS[4][50:60])]))
    expected = reference(module)
    torch.testing.assert_close(logits, torch.stack([expected[0][2], expected[4][59]]), atol=1e-4, rtol=0)


def test_all_rows_are_given_where_none_is_chosen():
    module = lively_module("qwen2, biases")
    model = fused(module)
    arena = poisoned_arena(model, 2, 128)
    batch = make_batch([(1, 0, TEXTS[4])])
    with torch.inference_mode():
        rows = step_rows(batch, torch.zeros(2, dtype=torch.int64))
        logits = model.weights.over(arena).logits(rows, make_kernel(arena).step(batch), None)
    torch.testing.assert_close(logits, reference(module)[4], atol=1e-4, rtol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("name", FUSED)
def test_the_kernels_give_the_same_logits_in_float32(name):
    """Issue 3's bound."""
    module = lively_module(name)
    assert largest_error(Rig(fused(module, device="cuda")), reference(module)) < 1e-4


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FUSED)
def test_the_kernels_are_as_near_in_half_precision_as_transformers(name, dtype):
    """Its own forward in that dtype says what rounding alone does."""
    module = lively_module(name)
    expected = reference(module)
    rig = Rig(fused(module, device="cuda", dtype=dtype))
    own = reference(module.to("cuda", dtype))
    theirs = max(float((own[slot] - expected[slot]).abs().max()) for slot in TEXTS)
    assert largest_error(rig, expected) < 2 * theirs
