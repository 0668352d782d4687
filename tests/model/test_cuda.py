"""The CUDA kernel against the float32 reference. Needs a device, and fails where there is none."""

from __future__ import annotations

import random

import pytest
import torch

from chatserve.model.kernels import kernel_name, make_kernel
from chatserve.model.loader import LoadedModel, wrap
from chatserve.model.runner import Runner, step_logits
from chatserve.model.sampling import SamplingDefaults
from tests.model.tiny import FAMILIES, make_batch, make_tiny, poisoned_arena, tiny_config, tiny_module

pytestmark = pytest.mark.gpu


def on_device(name: str, dtype: torch.dtype) -> LoadedModel:
    kind, changes = FAMILIES[name]
    exact = tiny_module(tiny_config(kind, **changes))
    module = tiny_module(tiny_config(kind, **changes), dtype=dtype)
    module.load_state_dict(exact.state_dict())
    return wrap(module.to("cuda"), name=name, end_ids=(2,), defaults=SamplingDefaults(), max_len=512)


def transformers_own_error(
    name: str, dtype: torch.dtype, expected: dict[int, torch.Tensor], texts: dict[int, list[int]]
) -> float:
    """The largest error of transformers' own forward in this dtype on the device: what rounding alone does."""
    kind, changes = FAMILIES[name]
    module = tiny_module(tiny_config(kind, **changes), dtype=dtype)
    module.load_state_dict(tiny_module(tiny_config(kind, **changes)).state_dict())
    module.to("cuda")
    errors = []
    for slot, text in texts.items():
        with torch.inference_mode():
            logits = module(input_ids=torch.tensor([text], device="cuda"), use_cache=False).logits[0]
        errors.append(float((logits.float().cpu() - expected[slot]).abs().max()))
    return max(errors)


@pytest.mark.parametrize(
    ("dtype", "kernel"), [(torch.bfloat16, "flash"), (torch.float16, "flash"), (torch.float32, "sdpa")]
)
@pytest.mark.parametrize("name", FAMILIES)
def test_prompt_decode_and_mixed_rows_give_the_reference_logits(name, dtype, kernel):
    """A43: over scrambled slots, with offsets, in an arena of NaN."""
    kind, changes = FAMILIES[name]
    reference = make_tiny(tiny_config(kind, **changes))
    model = on_device(name, dtype)
    arena = poisoned_arena(model, 6, 160)
    assert kernel_name(arena) == kernel
    texts = {slot: random.Random(slot).choices(range(3, 97), k=100 + 9 * slot) for slot in (4, 0, 2)}
    expected = {slot: reference.reference(text) for slot, text in texts.items()}
    theirs = transformers_own_error(name, dtype, expected, texts)
    close = 1e-3 if dtype == torch.float32 else 2 * theirs
    for cuts in ({4: (0, 90), 0: (0, 1), 2: (0, 33)}, {2: (33, 118), 4: (90, 91), 0: (1, 2)}, {0: (2, 3), 4: (91, 92)}):
        batch = make_batch([(slot, start, texts[slot][start:end]) for slot, (start, end) in cuts.items()])
        with torch.inference_mode():
            logits = step_logits(model, make_kernel(arena), batch).cpu()
        for row, (slot, (_, end)) in enumerate(cuts.items()):
            assert (logits[row] - expected[slot][end - 1]).abs().max() < close


def test_a_runner_samples_on_the_device():
    model = on_device("llama 8:1", torch.bfloat16)
    runner = Runner(model, poisoned_arena(model, 2, 64))
    first = runner.launch(make_batch([(1, 0, [5, 6, 7])], sampled=[]))
    second = runner.launch(make_batch([(1, 3, [8])]))
    second.wait()
    assert first.tokens() == []
    assert 0 <= second.tokens()[0] < 97
    runner.close()
