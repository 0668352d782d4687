"""The CUDA kernel against the float32 reference. Needs a device, and fails where there is none."""

from __future__ import annotations

import random

import pytest
import torch

from chatserve.model.attention_flash import FlashKernel
from chatserve.model.attention_sdpa import SdpaKernel
from chatserve.model.kernels import make_kernel
from chatserve.model.loaded import LoadedModel
from chatserve.model.sampling import SamplingDefaults
from chatserve.model.transformers_model import wrap
from tests.model.tiny import FAMILIES, logits_of, make_batch, make_tiny, poisoned_arena, tiny_config, tiny_module

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
    ("dtype", "kernel"), [(torch.bfloat16, FlashKernel), (torch.float16, FlashKernel), (torch.float32, SdpaKernel)]
)
@pytest.mark.parametrize("name", FAMILIES)
def test_prompt_decode_and_mixed_rows_give_the_reference_logits(name, dtype, kernel):
    """A43: over scrambled slots, with offsets, in an arena of NaN."""
    kind, changes = FAMILIES[name]
    reference = make_tiny(tiny_config(kind, **changes))
    model = on_device(name, dtype)
    arena = poisoned_arena(model, 6, 160)
    assert type(make_kernel(arena)) is kernel
    texts = {slot: random.Random(slot).choices(range(3, 97), k=100 + 9 * slot) for slot in (4, 0, 2)}
    expected = {slot: reference.reference(text) for slot, text in texts.items()}
    theirs = transformers_own_error(name, dtype, expected, texts)
    close = 1e-3 if dtype == torch.float32 else 2 * theirs
    for cuts in ({4: (0, 90), 0: (0, 1), 2: (0, 33)}, {2: (33, 118), 4: (90, 91), 0: (1, 2)}, {0: (2, 3), 4: (91, 92)}):
        batch = make_batch([(slot, start, texts[slot][start:end]) for slot, (start, end) in cuts.items()])
        logits = logits_of(model, arena, batch).cpu()
        for row, (slot, (_, end)) in enumerate(cuts.items()):
            assert (logits[row] - expected[slot][end - 1]).abs().max() < close
