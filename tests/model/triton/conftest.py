"""The kernels' tests: interpreted on the CPU, compiled on a GPU."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Where the kernels run: interpreted on the CPU, or compiled on a GPU."""
    if request.param == "cpu" and torch.cuda.is_available():
        pytest.skip("Triton compiles for the GPU that is there")
    return torch.device(request.param)


@pytest.fixture(autouse=True)
def fixed_numbers() -> None:
    torch.manual_seed(0)
