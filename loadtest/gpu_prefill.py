"""Attention for prompt rows after a prefix: over batch sizes, over prefix ratios, and for turn-sized prompts.

    python -m loadtest.gpu_prefill
    python -m loadtest.gpu_prefill --device cpu     a small case, to see that it runs

FlashAttention-3 on slots of the arena, beside itself on plain tensors and FlashAttention-2; a Llama-8B layer, bf16.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from loadtest import attention_contenders as contenders
from loadtest.attention_lab import Case
from loadtest.attention_race import Contender, race
from loadtest.kept import RESULTS, Kept, say
from loadtest.vllm_figures import PAGED_PREFILL_US

Row = tuple[int, int, int]
"""Batch, prefix, new tokens."""

PARTS: dict[str, tuple[Row, ...]] = {
    "measured before": (
        (1, 8_192, 8_192),
        (4, 8_192, 8_192),
        (8, 15_360, 1_024),
        (16, 6_800, 2_048),
        (64, 1_500, 150),
        (8, 1_500, 150),
        (16, 4_096, 128),
        (1, 32_768, 64),
    ),
    "over batch, half of 16K recorded": tuple((batch, 8_192, 8_192) for batch in (1, 2, 4, 8, 16)),
    "over prefix ratio, 4 of 16K": tuple(
        (4, 16_384 - new, new) for new in (16_384, 12_288, 8_192, 4_096, 2_048, 1_024)
    ),
}
QUICK = {"measured before": PARTS["measured before"]}
SMALL = {"a small case": ((2, 96, 32),)}
WANTED_TFLOPS = {(1, 8_192, 8_192): 640.0}
WANTED_US = {(64, 1_500, 150): 446.0, (8, 1_500, 150): 75.0, (16, 4_096, 128): 216.0, (1, 32_768, 64): 72.0}
"""Turn-sized prompts: FlashAttention-3 with its splits and packing tuned by hand."""

ON_CUDA: dict[str, Contender] = {
    "fa3_slots": contenders.fa3_slots,
    "fa3_contiguous": contenders.fa3_contiguous,
    "fa2_torch": contenders.fa2_torch,
    "paged": contenders.paged,
}
ON_CPU: dict[str, Contender] = {
    "sdpa_contiguous": contenders.sdpa_contiguous,
    "sdpa_slots": contenders.sdpa_slots,
    "fa3_slots": contenders.fa3_slots,
}


def main() -> None:
    """Every part, kept as it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="only the rows that were measured before")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_prefill.json")
    options = parser.parse_args()
    kept = Kept(options.out)
    parts = SMALL if options.device == "cpu" else QUICK if options.quick else PARTS
    for name, rows in parts.items():
        found: list[dict[str, Any]] = []
        for row in rows:
            found.append(measured(row, options.device, options.rounds))
            kept.put(name, found)
            say(", ".join(f"{key} {value}" for key, value in found[-1].items() if value is not None))


def measured(row: Row, device: str, rounds: int) -> dict[str, Any]:
    """One row of a table: microseconds a layer, and what they come to in TFLOP/s."""
    batch, prefix, new = row
    case = Case.even(batch, prefix, new)
    found = race(case, ON_CUDA if device == "cuda" else ON_CPU, rounds=rounds, device=device)
    rates = {
        key.removesuffix("_us") + "_tflops": round(case.flops / value / 1e6, 1)
        for key, value in found.items()
        if key.endswith("_us")
    }
    wanted = {"at_most_us": WANTED_US.get(row), "at_least_tflops": WANTED_TFLOPS.get(row)}
    return {
        "batch": batch,
        "prefix": prefix,
        "new": new,
        **found,
        **rates,
        "vllm_paged_us_before": PAGED_PREFILL_US.get(row),
        **wanted,
    }


if __name__ == "__main__":
    main()
