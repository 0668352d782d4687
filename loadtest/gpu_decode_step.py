"""One decode step of the whole model: as a bare CUDA graph, and inside a running engine, beside the floor.

    python -m loadtest.gpu_decode_step .models/llama-8b-shape

Llama-8B shape, random weights, bf16, about 1,024 tokens of context a sequence. The floor is the bytes of weights and KV
at 4.3 TB/s.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from chatserve.engine.process import SWITCH_INTERVAL
from chatserve.model.batch import Batch, Sample
from chatserve.model.decode_graphs import DecodeGraphs
from chatserve.model.draw_triton import DrawWorkspace
from chatserve.model.graphs import Stage, capture_all
from chatserve.model.kernels import choose_kernels
from chatserve.model.loaded import LoadedModel
from chatserve.model.sampling import SamplingParams
from loadtest.attention_lab import Case, Lab, lab
from loadtest.engine_watch import EngineWatch, RandomTokens
from loadtest.in_process import Bench
from loadtest.kept import RESULTS, Kept, say
from loadtest.kernel_clock import event_seconds
from vtensor.operations import SCRATCH

CONTEXT = 1_024
FLOOR_MS = {1: 3.37, 8: 3.59, 64: 5.34, 256: 11.33}
MOST = {1: 1.20, 64: 1.25, 256: 1.30}
"""Of the floor, that a bare graph may take."""
MOST_IN_ENGINE = 1.05
"""Of the bare graph, that a step in the engine may take."""
REPLAYS, ROUNDS = 20, 7
STEPS = 120
PREFILL_ROWS = 1_500
"""Of a step, at least: so many more steps go by until the last sequence decodes with the first."""


def bare_graph_ms(model: LoadedModel, batch: int) -> float:
    """Median milliseconds of a captured decode step, replayed without a pause; the draw is in it."""
    spec = model.spec
    case = Case.even(batch, CONTEXT - 1, 1, spec.kv_heads)
    with torch.inference_mode(), lab(case, "cuda") as sequences:
        assert sequences.layers == spec.layers, "the arena has fewer layers than the model"
        decode = choose_kernels(
            sequences.kv, heads=spec.heads, chunk_tokens=sequences.chunk_tokens, most_rows=batch
        ).decode
        assert decode is not None, "there is no kernel that a graph could hold"
        newest = torch.zeros(len(sequences.kv), dtype=torch.int64, device=model.device)
        workspace = DrawWorkspace.of(batch, spec.vocab_size, model.device)
        network = model.weights.over(sequences.kv)
        graphs = DecodeGraphs(Stage(network, workspace, newest, SCRATCH), decode)
        capture_all([(graphs, batch)], model.device)
        step = greedy(sequences, case)

        def replays() -> None:
            for _ in range(REPLAYS):
                graphs.replay(step)

        replays()
        return statistics.median(event_seconds(replays) for _ in range(ROUNDS)) / REPLAYS * 1e3


def greedy(sequences: Lab, case: Case) -> Batch:
    """A step in which every sequence is sampled."""
    batch = sequences.batch(case)
    params = SamplingParams(max_tokens=STEPS, temperature=0.0)
    samples = tuple(
        Sample(sequence=index, params=params, step=0, prompt_ids=(), output_ids=()) for index in range(len(batch.slots))
    )
    return Batch(batch.token_ids, batch.positions, batch.slots, batch.starts, batch.counts, samples)


def engine_step(bench: Bench, batch: int, context: int, steps: int) -> dict[str, Any]:
    """So many sequences decode together, around `context` tokens: time between the ends of two steps."""
    watch, before = EngineWatch(bench), bench.engine.stats()
    words = RandomTokens(bench.model.spec.vocab_size, seed=batch)
    asks = [watch.ask(words.draw(context - steps // 2), steps, reuse=False) for _ in range(batch)]
    watch.until(lambda: all(ask.first is not None for ask in asks))
    began = len(watch.ended)
    watch.until(lambda: any(ask.over for ask in asks))
    gaps = watch.gaps(began + 2)[:-2]
    watch.until(lambda: not watch.busy)
    after = bench.engine.stats()
    watch.flush()
    # From the first end to the last: a step seen late is no faster, and its successor no slower.
    return {
        "engine_ms": round(statistics.mean(gaps) * 1e3, 3),
        "engine_p50_ms": round(statistics.median(gaps) * 1e3, 3),
        "engine_worst_ms": round(max(gaps) * 1e3, 3),
        "stalls": after.stalls - before.stalls,
    }


def main() -> None:
    """Each batch size: the graph, then the engine, then both beside the floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder with config.json and a tokenizer")
    parser.add_argument("--quick", action="store_true", help="only the batch sizes with a target")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_decode_step.json")
    options = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL)
    kept, batches = Kept(options.out), list(MOST) if options.quick else list(FLOOR_MS)
    say("loading, and capturing the engine's graphs")
    with Bench(
        options.model, device="cuda", max_running=max(batches), max_len=2 * CONTEXT, random_weights=True
    ) as bench:
        measure(bench, batches, kept)


def measure(bench: Bench, batches: Sequence[int], kept: Kept) -> None:
    """A row for each batch size, kept as soon as it is there."""
    found: list[dict[str, Any]] = []
    for batch in batches:
        row: dict[str, Any] = {"sequences": batch, "context": CONTEXT, "floor_ms": FLOOR_MS[batch]}
        found.append(row)
        prefill_steps = batch * CONTEXT // PREFILL_ROWS
        row |= engine_step(bench, batch, CONTEXT, STEPS + prefill_steps)
        kept.put("decode step", found)
        graph = bare_graph_ms(bench.model, batch)
        row |= {
            "graph_ms": round(graph, 3),
            "graph_over_floor": round(graph / FLOOR_MS[batch], 3),
            "graph_at_most": MOST.get(batch),
            "engine_over_graph": round(row["engine_p50_ms"] / graph, 3),
            "engine_at_most": MOST_IN_ENGINE,
        }
        kept.put("decode step", found)
        say(str(row))


if __name__ == "__main__":
    main()
