"""Attention for decode rows, one new token a sequence: over batch, length, and KV heads from MHA to MQA.

    python -m loadtest.gpu_decode
    python -m loadtest.gpu_decode --device cpu     a small case, to see that it runs

The server's split kernel on slots of the arena, beside FlashAttention-3 on slots and on plain tensors, and
FlashAttention-2; 32 query heads of 128, bf16. `floor_us` is the time of the bytes alone, at 4.3 TB/s.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from loadtest import attention_contenders as contenders
from loadtest.attention_lab import Case
from loadtest.attention_race import Contender, race
from loadtest.kept import RESULTS, Kept, say

BYTES_A_MICROSECOND = 4.3e6
Row = tuple[int, int, int]
"""Batch, context with the new token, KV heads."""

MEASURED: dict[Row, tuple[float, float]] = {
    (1, 1_024, 8): (7.6, 12.4),
    (1, 16_384, 8): (25.0, 28.0),
    (8, 4_096, 8): (39.5, 42.6),
    (32, 4_096, 8): (127, 131),
    (64, 1_024, 8): (71, 77),
    (64, 2_048, 8): (130, 134),
    (256, 1_024, 8): (248, 281),
    (16, 8_192, 4): (70, 73),
    (16, 8_192, 1): (27, 29),
}
"""Microseconds a layer measured before: a plain split kernel on slots, the most we may take; vLLM's paged FA3."""

PARTS: dict[str, tuple[Row, ...]] = {
    "measured before": tuple(MEASURED),
    "over batch, 16K each": tuple((batch, 16_384, 8) for batch in (1, 2, 4, 8, 16, 32, 64)),
    "over length, 16 sequences": tuple((16, length, 8) for length in (1_024, 2_048, 4_096, 8_192, 16_384, 32_768)),
    "over KV heads, 16 of 16K": tuple((16, 16_384, kv_heads) for kv_heads in (32, 16, 8, 4, 2, 1)),
}
SMALL = {"a small case": ((2, 96, 8),)}
RAGGED = tuple(int(length) for length in np.random.default_rng(1).permutation(np.linspace(64, 4_096, 64)))
RAGGED_AT_MOST = 1.05
"""Of the time of its bytes."""

ON_CUDA: dict[str, Contender] = {
    "split_slots": contenders.split_decode,
    "fa3_slots": contenders.fa3_slots,
    "fa3_contiguous": contenders.fa3_contiguous,
    "fa2_torch": contenders.fa2_torch,
    "paged": contenders.paged,
}
ON_CPU: dict[str, Contender] = {
    "sdpa_contiguous": contenders.sdpa_contiguous,
    "sdpa_slots": contenders.sdpa_slots,
    "split_slots": contenders.split_decode,
}


def main() -> None:
    """Every part, kept as it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="only the rows that were measured before")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_decode.json")
    options = parser.parse_args()
    kept = Kept(options.out)
    quick = {"measured before": PARTS["measured before"]}
    parts = SMALL if options.device == "cpu" else quick if options.quick else PARTS
    for name, rows in parts.items():
        found: list[dict[str, Any]] = []
        for row in rows:
            batch, length, kv_heads = row
            at_most, paged = MEASURED.get(row, (None, None))
            case = Case.even(batch, length - 1, 1, kv_heads)
            shown = {"batch": batch, "context": length, "kv_heads": kv_heads}
            shown |= measured(case, options.device, options.rounds)
            found.append(shown | {"vllm_paged_us_before": paged, "at_most_us": at_most})
            kept.put(name, found)
            say(", ".join(f"{key} {value}" for key, value in found[-1].items() if value is not None))
    if options.device == "cuda":
        ragged = measured(Case(tuple(length - 1 for length in RAGGED), (1,) * 64), options.device, options.rounds)
        ragged["at_most_us"] = round(ragged["floor_us"] * RAGGED_AT_MOST, 1)
        kept.put("ragged", [{"batch": 64, "context": "64 to 4,096", "kv_heads": 8, **ragged}])
        say(f"ragged: {ragged}")


def measured(case: Case, device: str, rounds: int) -> dict[str, Any]:
    """Microseconds a layer beside those of the bytes."""
    found = race(case, ON_CUDA if device == "cuda" else ON_CPU, rounds=rounds, device=device)
    return {"floor_us": round(case.kv_bytes(2) / BYTES_A_MICROSECOND, 1), **found}


if __name__ == "__main__":
    main()
