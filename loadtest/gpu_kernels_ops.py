"""The small operations and the draws: checked against plain torch, and timed at several numbers of rows."""

from __future__ import annotations

from functools import partial

import torch

from chatserve.model.draw_triton import DrawWorkspace, draw_tokens
from chatserve.model.ops_torch import TorchOps
from chatserve.model.ops_triton import TritonOps
from chatserve.model.step import StepRows
from loadtest.gpu_clock import copies, floor_us, microseconds, relative_error

HIDDEN, INTER, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 4096, 14336, 32, 8, 128, 49152
MAX_LEN = 4096
WIDTH = (HEADS + 2 * KV_HEADS) * HEAD_DIM


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.bfloat16, device="cuda")


class Inputs:
    """What a layer's small operations take for so many rows, a layer of its own KV."""

    def __init__(self, rows: int) -> None:
        self.x, self.residual, self.weight = randn(rows, HIDDEN), randn(rows, HIDDEN), randn(HIDDEN)
        self.qkv, self.gate_up = randn(rows, WIDTH), randn(rows, 2 * INTER)
        places = torch.randperm(rows, device="cuda")
        self.rows = StepRows(ids=places, positions=places % 64, slots=places // 64)
        self.kv = torch.zeros(rows // 64 + 1, 64, 2, KV_HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
        angles = torch.rand(MAX_LEN, HEAD_DIM // 2, device="cuda") * 6
        self.cos, self.sin = angles.cos(), angles.sin()

    def rope_write(self, ops: TritonOps | TorchOps) -> torch.Tensor:
        keys, values = self.kv[:, :, 0], self.kv[:, :, 1]
        return ops.rope_write(self.qkv, self.cos, self.sin, self.rows, keys, values, HEADS, None, None, 1e-5)


def check_ops() -> dict[str, float]:
    """Relative errors against the same in plain torch, and of greedy draws the share that differs."""
    ours, plain, inputs = TritonOps(), TorchOps(), Inputs(300)
    errors = {
        "norm": relative_error(ours.norm(inputs.x, inputs.weight, 1e-5), plain.norm(inputs.x, inputs.weight, 1e-5))
    }
    sums = [ops.add_norm(inputs.x, inputs.residual, inputs.weight, 1e-5) for ops in (ours, plain)]
    errors["add_norm"] = max(relative_error(*pair) for pair in zip(*sums, strict=True))
    queries, arenas = [], []
    for ops in (ours, plain):
        inputs.kv.zero_()
        queries.append(inputs.rope_write(ops))
        arenas.append(inputs.kv.clone())
    errors["rope_write"] = max(relative_error(*queries), relative_error(*arenas))
    errors["gated"] = relative_error(ours.gated(inputs.gate_up), plain.gated(inputs.gate_up))
    logits, drawn = randn(64, VOCAB), torch.empty(64, dtype=torch.int64, device="cuda")
    numbers = torch.arange(64, device="cuda")
    space = DrawWorkspace.of(64, VOCAB, logits.device)
    draw_tokens(logits, torch.zeros(64, device="cuda"), numbers, numbers, drawn, space)
    picked = logits.gather(1, drawn[:, None])[:, 0]
    errors["greedy draws"] = float((picked != logits.max(dim=1).values).float().mean())
    return errors


def time_ops() -> dict[str, dict[str, float | str]]:
    """Each operation beside its floor."""
    figures: dict[str, dict[str, float | str]] = {}
    ops = TritonOps()
    for rows in (1, 64, 256, 2048):
        inputs = [Inputs(rows) for _ in range(copies(rows * 2 * INTER * 2, most=16))]
        moved = {
            "add_norm": 8 * HIDDEN * rows,
            "rope_write": 4 * WIDTH * rows,
            "gated": 6 * INTER * rows,
        }
        times = {
            "add_norm": microseconds([partial(ops.add_norm, i.x, i.residual, i.weight, 1e-5) for i in inputs]),
            "rope_write": microseconds([partial(i.rope_write, ops) for i in inputs]),
            "gated": microseconds([partial(ops.gated, i.gate_up) for i in inputs]),
        }
        for name, time in times.items():
            figures[f"{name}, {rows} rows"] = {"floor": round(floor_us(moved[name]), 2), "ours": round(time, 2)}
    return figures


def time_draws() -> dict[str, dict[str, float | str]]:
    """Greedy and drawn, beside the reading of the logits."""
    figures: dict[str, dict[str, float | str]] = {}
    for rows in (1, 64, 256):
        many = [randn(rows, VOCAB) for _ in range(copies(rows * VOCAB * 2, most=16))]
        numbers = torch.arange(rows, device="cuda")
        space = DrawWorkspace.of(rows, VOCAB, numbers.device)
        last = torch.zeros(rows, dtype=torch.int64, device="cuda")
        times = []
        for temperature in (0.0, 0.8):
            heat = torch.full((rows,), temperature, device="cuda")
            calls = [partial(draw_tokens, x, heat, numbers, numbers, last, space) for x in many]
            times.append(round(microseconds(calls), 2))
        floor = round(floor_us(rows * VOCAB * 2), 2)
        figures[f"draws, {rows} rows"] = {"floor": floor, "greedy": times[0], "at 0.8": times[1]}
    return figures
