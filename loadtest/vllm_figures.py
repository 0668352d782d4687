"""vLLM 0.23 and the floor, as they were measured earlier on one H200: constants to stand beside what is measured now.

Llama-8B shape, random weights, bf16, prefix caching, FlashAttention-3, its defaults but four API processes; the same
load as scenarios.py, mean of two runs. The floor is new tokens at 750 TFLOP/s, then weights and KV at 4.3 TB/s a step.
"""

from __future__ import annotations

from dataclasses import dataclass

SOURCE = "vLLM 0.23 with four API processes, measured earlier on the same kind of machine, not in this run"
FREE_SHARE = 1 - 130 / 141
"""Of the device's memory when idle: it holds 130 of 141 GB."""
READY_SECONDS = (98, 150)


@dataclass(frozen=True, slots=True)
class Reference:
    """out_tok_s: output tokens/s.  ttft_later_ms, tpot_ms: medians.  wanted: what is aimed at.  floor: tokens/s."""

    out_tok_s: float
    ttft_later_ms: float
    tpot_ms: float
    floor_tok_s: float
    wanted_tok_s: float
    wanted_ttft_later_ms: float


SCENARIOS = {
    "A": Reference(198, 23, 4.7, 288, 235, 12),
    "B": Reference(1_408, 48, 4.9, 2_100, 1_600, 25),
    "C": Reference(5_880, 245, 8.6, 8_000, 6_500, 180),
    "D": Reference(10_216, 690, 20.3, 13_100, 11_000, 450),
    "E": Reference(722, 629, 12.8, 950, 780, 450),
}

NOTES = {
    "N1": {"req_s": 3.73, "out_tok_s": 238.7, "ttft_mean_ms": 15.36, "tpot_mean_ms": 4.01, "e2e_mean_ms": 267.94},
    "N8": {"req_s": 24.68, "out_tok_s": 1579.51, "ttft_mean_ms": 23.62, "tpot_mean_ms": 4.73, "e2e_mean_ms": 321.62},
}
"""vLLM as the notes have it, on another machine and model: how such a table looks, not what it has to say here."""

PAGED_PREFILL_US = {
    (1, 8_192, 8_192): 2_840,
    (4, 8_192, 8_192): 11_300,
    (8, 15_360, 1_024): 3_695,
    (16, 6_800, 2_048): 7_235,
    (64, 1_500, 150): 612,
}
"""vLLM's paged FlashAttention-3, block 16: (batch, prefix, new) and microseconds a layer."""
