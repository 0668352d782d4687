"""Where there is no GPU, the Triton kernels run by Triton's interpreter, which must be chosen before they are seen."""

from __future__ import annotations

import sys
from typing import Any

import torch
import triton
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction


def interpret_triton() -> None:
    """Nothing, where there is a GPU to compile for."""
    if not torch.cuda.is_available():
        choose_interpreter()
        accept_scalars_as_indices()


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
