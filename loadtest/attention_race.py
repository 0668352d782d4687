"""Several kernels over the same sequences, in turn: how long each takes a layer, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from loadtest.attention_contenders import Attend, NotHere
from loadtest.attention_lab import Case, Lab, lab
from loadtest.kernel_clock import micros_a_layer

Contender = Callable[[Lab, Case], Attend]


def race(case: Case, contenders: Mapping[str, Contender], *, rounds: int, device: str) -> dict[str, Any]:
    """Microseconds a layer under `NAME_us`, or under `NAME` why there are none.

    differs: the largest difference between any output and the first contender's.
    """
    found: dict[str, Any] = {}
    with torch.inference_mode(), lab(case, device) as sequences:
        first: torch.Tensor | None = None
        for name, contender in contenders.items():
            try:
                attend = contender(sequences, case)
                output = attend(0).float()
                if first is None:
                    first = output
                else:
                    found["differs"] = max(found.get("differs", 0.0), float((output - first).abs().max()))
                del output
                micros = micros_a_layer(attend, layers=sequences.layers, rounds=rounds, device=device)
                found[f"{name}_us"] = round(micros, 1)
            except NotHere as reason:
                found[name] = str(reason)
            except RuntimeError as error:  # one kernel's failure is no reason to lose the others'
                found[name] = f"failed: {str(error).splitlines()[0]}"
        del first
    return found
