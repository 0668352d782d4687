"""Where there is no GPU, the Triton kernels run by Triton's interpreter, which must be chosen before they are seen."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
import triton
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction


def choose_interpreter() -> None:
    """torch has imported Triton by now, and with it Triton's own functions, ready to be compiled."""
    triton.knobs.runtime.interpret = True
    for module in [module for name, module in sys.modules.items() if name.startswith("triton.language")]:
        for name, function in list(vars(module).items()):
            if isinstance(function, JITFunction):
                setattr(module, name, interpreter.InterpretedFunction(function.fn))


def accept_scalars_as_indices() -> None:
    """The interpreter's scalars are arrays of one number, which numpy since 2.4 does not take for an index."""
    patch_tensor = interpreter._patch_lang_tensor

    def patch_tensor_and_index(tensor: Any, scope: Any) -> None:
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    interpreter._patch_lang_tensor = patch_tensor_and_index


if not torch.cuda.is_available():
    choose_interpreter()
    accept_scalars_as_indices()


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> torch.device:
    """Where the kernels run: interpreted on the CPU, or compiled on a GPU."""
    if request.param == "cpu" and torch.cuda.is_available():
        pytest.skip("Triton compiles for the GPU that is there")
    return torch.device(request.param)


@pytest.fixture(autouse=True)
def fixed_numbers() -> None:
    torch.manual_seed(0)
