"""Extend ahead on a GPU: many requests decode past chunk edges; who waits for memory, and how much is rounded away?

    python -m loadtest.gpu_memory

An engine in this process over random weights of a Llama-8B shape (bf16, 128 KiB of KV a token). Prompts are of unequal
length, so that chunk edges are met at unequal times; then of equal length, so that all meet theirs in one step.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from chatserve.engine.build import build_engine
from chatserve.engine.engine import Engine
from chatserve.engine.messages import Generate
from chatserve.engine.process import SWITCH_INTERVAL
from chatserve.engine.settings import EngineSettings
from chatserve.model.loader import wrap
from chatserve.model.sampling import SamplingDefaults, SamplingParams
from loadtest.report import keep, options

REQUESTS = 64
CONTEXT = 4096
CHUNK_EDGE_SPREAD = 256


def model(layers: int) -> LlamaForCausalLM:
    """Random weights straight on the device."""
    config = LlamaConfig(
        vocab_size=49_152,
        hidden_size=4096,
        intermediate_size=14_336,
        num_hidden_layers=layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=131_072,
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
        tie_word_embeddings=False,
        dtype=torch.bfloat16,
    )
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        module: LlamaForCausalLM = LlamaForCausalLM(config)
    torch.set_default_dtype(before)
    module.model.rotary_emb = type(module.model.rotary_emb)(config).to("cuda")
    module.train(False)
    return module


class Watch:
    """What the engine's memory looked like after each step."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.losses: list[float] = []
        self.step_ms: list[float] = []
        self._steps = 0
        self._last = time.perf_counter()

    def note(self) -> None:
        """Called after each turn of the loop."""
        steps = self._engine.counters.steps
        if steps == self._steps:
            return
        now = time.perf_counter()
        self.step_ms.append((now - self._last) * 1e3)
        self._steps, self._last = steps, now
        running = self._engine.running()
        if len(running) == REQUESTS and all(request.output for request in running):
            used = sum(request.computed for request in running)
            mapped = sum(request.vtensor.rows for request in running if request.vtensor is not None)
            self.losses.append(1 - used / mapped)


def measure(lengths: list[int], new_tokens: int, layers: int) -> dict[str, float]:
    """One run: prompts of these lengths, then `new_tokens` decode steps together."""
    wake = threading.Event()
    loaded = wrap(model(layers), name="llama-8b-shape", end_ids=(), defaults=SamplingDefaults(), max_len=8192)
    settings = EngineSettings(model="llama-8b-shape", device="cuda", max_running=REQUESTS)
    engine, _ = build_engine(loaded, settings, wake.set)
    generator = np.random.default_rng(1)
    watch = Watch(engine)
    params = SamplingParams(max_tokens=new_tokens, temperature=0.0)
    for number, length in enumerate(lengths):
        prompt = generator.integers(0, 49_152, length).astype("<i4").tobytes()
        engine.add(Generate(id=str(number), prompt=prompt, params=params))
    began = time.perf_counter()
    while engine.busy:
        wake.clear()
        engine.advance()
        watch.note()
        if engine.busy:
            wake.wait(60)
    seconds = time.perf_counter() - began
    engine.audit()
    stats = engine.stats()
    engine.close()
    return {
        "requests": len(lengths),
        "prompt_tokens": sum(lengths),
        "new_tokens_each": new_tokens,
        "chunk_tokens": stats.chunk_tokens,
        "steps": stats.steps,
        "decode_step_ms_median": round(statistics.median(watch.step_ms[-new_tokens // 2 :]), 2),
        "seconds": round(seconds, 2),
        "stalls": stats.stalls,
        "preemptions": stats.preemptions,
        "rounding_loss_mean": round(statistics.mean(watch.losses), 4),
        "rounding_loss_max": round(max(watch.losses), 4),
        "driver_calls": stats.driver_calls,
    }


def main() -> None:
    """Both runs, printed and kept."""
    parser = options(__doc__, "gpu_memory.h200")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=640)
    chosen = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL)
    spread = np.random.default_rng(0).integers(-CHUNK_EDGE_SPREAD, CHUNK_EDGE_SPREAD, REQUESTS)
    start = CONTEXT - chosen.new_tokens // 2
    keep(
        chosen.out,
        {
            "device": torch.cuda.get_device_name(),
            "unequal": measure([int(start + offset) for offset in spread], chosen.new_tokens, chosen.layers),
            "in step": measure([start] * REQUESTS, chosen.new_tokens, chosen.layers),
        },
    )


if __name__ == "__main__":
    main()
