"""However a product is computed, it is the product."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from chatserve.model.linear_cpu import FEW, CpuLinear, in_steps, speed_up_linears


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 2, 3, FEW, FEW + 1, 16, 17, 40])
def test_any_number_of_rows_gives_what_linear_gives(rows, bias):
    linear = nn.Linear(24, 56, bias=bias)
    given = torch.randn(1, rows, 24)
    with torch.inference_mode():
        result = CpuLinear(linear)(given)
        torch.testing.assert_close(result, linear(given), atol=1e-5, rtol=0)
    assert result.is_contiguous()


def test_prompts_of_any_length_come_to_few_numbers_of_rows():
    """Each is a program that oneDNN keeps: a server's memory grew with every length it had not met before."""
    assert [in_steps(rows) for rows in (1, 15, 16, 17, 32, 33)] == [1, 15, 16, 32, 32, 48]
    assert len({in_steps(rows) for rows in range(1, 513)}) == 47


def test_parameters_stay_shared():
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4)), nn.ReLU())
    weights = list(model.parameters())
    speed_up_linears(model)
    assert all(now is before for now, before in zip(model.parameters(), weights, strict=True))
    assert [type(layer) for layer in model.modules()].count(CpuLinear) == 2


def test_sixteen_bits_stay_sixteen_bits():
    linear = nn.Linear(24, 56).to(torch.bfloat16)
    for rows in (1, FEW + 1):
        given = torch.randn(rows, 24, dtype=torch.bfloat16)
        with torch.inference_mode():
            torch.testing.assert_close(CpuLinear(linear)(given), linear(given), atol=3e-2, rtol=0)
