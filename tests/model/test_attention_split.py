"""Long sequences decoded in pieces: the same numbers as in one piece, and no row past their end is touched."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from chatserve.model.attention_split import SplitDecodes


@pytest.mark.parametrize("heads", [(3, 3), (8, 1), (4, 7)])
@pytest.mark.parametrize("lengths", [(512, 513), (1501,), (702, 1024, 535)])
def test_pieces_joined_equal_the_whole(heads: tuple[int, int], lengths: tuple[int, ...]) -> None:
    kv_heads, group = heads
    torch.manual_seed(1)
    arena = torch.full((5, 1600, 2, 2, kv_heads, 16), float("nan"))
    slots = [4, 0, 2][: len(lengths)]
    for slot, length in zip(slots, lengths, strict=True):
        arena[slot, :length] = torch.randn(length, 2, 2, kv_heads, 16)
    query = torch.randn(10, kv_heads * group, 16)
    rows = [7, 1, 3][: len(lengths)]
    decodes = SplitDecodes(arena, slots, lengths, rows)
    for layer in range(2):
        joined = decodes.attend(layer, query, 0.3)
        for sequence, (slot, length, row) in enumerate(zip(slots, lengths, rows, strict=True)):
            keys, values = arena[slot, :length, layer].permute(1, 2, 0, 3)
            whole = scaled_dot_product_attention(query[row].view(kv_heads, group, 16), keys, values, scale=0.3).reshape(
                kv_heads * group, 16
            )
            assert torch.allclose(joined[sequence], whole, atol=1e-5)
