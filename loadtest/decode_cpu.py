"""Decoding on the CPU with the demo model: one stream beside transformers' generate, and eight streams beside one.

    python -m loadtest.decode_cpu

All in one process and in turn, round after round, float32; figures are medians over the rounds, ratios are of medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from loadtest.in_process import Bench, demo
from loadtest.report import keep, options

CONTEXTS = (200, 1_500)
STREAMS = 8


def generate_seconds(model: PreTrainedModel, prompt: Sequence[int], new_tokens: int) -> float:
    """Seconds a token of greedy generate, its prompt's time taken off."""
    ids = torch.tensor([list(prompt)])

    def run(count: int) -> float:
        began = time.perf_counter()
        model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
        )
        return time.perf_counter() - began

    with torch.inference_mode():
        return (run(new_tokens + 1) - run(1)) / new_tokens


def step_seconds(times: Sequence[Sequence[float]]) -> float:
    """The median time between two tokens of one stream, all streams decoding together."""
    began, ended = max(each[0] for each in times), min(each[-1] for each in times)
    inside = [time for time in times[0] if began <= time <= ended]
    return statistics.median(later - earlier for earlier, later in pairwise(inside))


def main() -> None:
    """Every context in turn."""
    parser = options(__doc__, "decode_cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=24)
    chosen = parser.parse_args()
    folder = demo()
    with Bench(folder) as bench:
        keep(chosen.out, compare(bench, folder, chosen.rounds, chosen.tokens))


def compare(bench: Bench, folder: Path, rounds: int, tokens: int) -> dict[str, object]:
    """Figures by context."""
    load = partial(AutoModelForCausalLM.from_pretrained, folder, dtype=torch.float32)
    model = bench.worker.submit(load).result()  # in the thread that computes, for both
    figures: dict[str, object] = {}
    for context in CONTEXTS:
        random = np.random.default_rng(context)
        prompts = [random.integers(100, 49_000, context).tolist() for _ in range(STREAMS)]
        bench.answers(prompts, 1)
        generated, one, eight = [], [], []
        for _ in range(rounds):
            generated.append(bench.worker.submit(generate_seconds, model, prompts[0], tokens).result())
            one.append(step_seconds(bench.answers(prompts[:1], tokens)[1]))
            eight.append(step_seconds(bench.answers(prompts, tokens)[1]))
        alone, together, theirs = (statistics.median(each) for each in (one, eight, generated))
        figures[f"{context} tokens of context"] = {
            "generate_ms_a_token": round(theirs * 1e3, 2),
            "one_stream_ms_a_token": round(alone * 1e3, 2),
            "eight_streams_ms_a_step": round(together * 1e3, 2),
            "one_stream_over_generate": round(theirs / alone, 2),
            "eight_streams_over_one": round(STREAMS * alone / together, 2),
        }
    return figures


if __name__ == "__main__":
    main()
