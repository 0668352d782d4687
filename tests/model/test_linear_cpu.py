"""The other order of a product is the same product."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from chatserve.model.linear_cpu import FEW, FewRowsLinear, speed_up_few_rows


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, FEW, FEW + 1, 40])
def test_any_number_of_rows_gives_what_linear_gives(rows, bias):
    linear = nn.Linear(24, 56, bias=bias)
    given = torch.randn(1, rows, 24)
    with torch.inference_mode():
        result = FewRowsLinear(linear)(given)
        torch.testing.assert_close(result, linear(given), atol=1e-5, rtol=0)
    assert result.is_contiguous()


def test_parameters_stay_shared():
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4)), nn.ReLU())
    weights = list(model.parameters())
    speed_up_few_rows(model)
    assert all(now is before for now, before in zip(model.parameters(), weights, strict=True))
    assert [type(layer) for layer in model.modules()].count(FewRowsLinear) == 2
