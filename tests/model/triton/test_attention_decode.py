"""Decode attention over slots against float64: ragged lengths, in an arena that is NaN wherever nothing may be read."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
import torch

from chatserve.model.attention_decode import DecodeKernel, DecodeTiling

SMALL = DecodeTiling(tile=16, warps=4, stages=2, programs=2, waves=3)
"""Cuts short sequences into many pieces."""

APART = replace(SMALL, apart=True)
"""And joins them by another kernel."""

CLOSE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}

on_gpu = pytest.mark.gpu
PLACES = [
    pytest.param("cpu", torch.float32),
    pytest.param("cpu", torch.float16),  # the interpreter multiplies no bfloat16
    pytest.param("cuda", torch.float32, marks=on_gpu),
    pytest.param("cuda", torch.float16, marks=on_gpu),
    pytest.param("cuda", torch.bfloat16, marks=on_gpu),
]


@dataclass
class Case:
    """Sequences of these lengths, each in its own slot, with room after it that must not be read."""

    lengths: list[int]
    kv_heads: int = 1
    group: int = 4
    head_dim: int = 64
    window: int | None = None
    softcap: float | None = None
    chosen: DecodeTiling | None = SMALL

    @property
    def heads(self) -> int:
        return self.kv_heads * self.group

    def arena(self, device: str, dtype: torch.dtype) -> torch.Tensor:
        """Slots apart from one another, as they are in a reserved range, in scrambled order."""
        self.slots = random.Random(7).sample(range(len(self.lengths)), len(self.lengths))
        shape = (len(self.lengths), max(self.lengths) + 40, 2, 2, self.kv_heads, self.head_dim)
        kv = torch.full(shape, float("nan"), dtype=dtype, device=device)[:, :-8]
        generator = torch.Generator(device).manual_seed(1)
        for slot, length in zip(self.slots, self.lengths, strict=True):
            first = max(0, length - (self.window or length))
            fresh = torch.randn(length - first, *shape[2:], generator=generator, device=device)
            kv[slot, first:length] = fresh.to(dtype)
        return kv

    def kernel(self, kv: torch.Tensor) -> DecodeKernel:
        rows = len(self.lengths)
        return DecodeKernel(
            kv, self.heads, most_rows=rows, window=self.window, softcap=self.softcap, chosen=self.chosen
        )

    def reference(self, kv: torch.Tensor, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        rows = []
        for row, (slot, length) in enumerate(zip(self.slots, self.lengths, strict=True)):
            first = max(0, length - (self.window or length))
            keys, values = kv[slot, first:length, layer].double().repeat_interleave(self.group, dim=2).unbind(1)
            scores = torch.einsum("hd,nhd->hn", query[row].double(), keys) * scale
            if self.softcap is not None:
                scores = self.softcap * torch.tanh(scores / self.softcap)
            rows.append(torch.einsum("hn,nhd->hd", scores.softmax(dim=-1), values))
        return torch.stack(rows)


def check(case: Case, device: str, dtype: torch.dtype) -> None:
    """Both layers by one plan, the second after the first has used what they share; queries inside wider rows."""
    kv = case.arena(device, dtype)
    kernel = case.kernel(kv)
    plan = kernel.plan(torch.tensor(case.slots, device=device), torch.tensor(case.lengths, device=device))
    scale = 1.3 * case.head_dim**-0.5
    for layer in (1, 0):
        wide = torch.randn(len(case.lengths), case.heads + 3, case.head_dim, device=device).to(dtype)
        query = wide[:, 1 : case.heads + 1]
        output = kernel.attend(plan, layer, query, scale)
        expected = case.reference(kv, layer, query, scale)
        error = (output.double() - expected).norm(dim=-1) / expected.norm(dim=-1)
        assert error.max() < CLOSE[dtype]  # which no NaN is


@pytest.mark.parametrize(("device", "dtype"), PLACES)
@pytest.mark.parametrize(
    "case",
    [
        Case([1, 90, 17, 33], kv_heads=2),
        Case([70], kv_heads=2, group=1),
        Case([5, 64], group=7, head_dim=80),
        Case([48, 21], group=8, head_dim=96),
        Case([66, 15], group=32),
        Case([66, 15, 1], kv_heads=2, group=3, chosen=APART),
        Case([130, 70], group=16, head_dim=80, chosen=APART),
        Case([90], kv_heads=2, chosen=APART),
        Case([49, 3], group=4, head_dim=128),
        Case([30, 52], group=2, head_dim=256),
    ],
    ids=repr,
)
def test_any_group_and_head_dim(case: Case, device: str, dtype: torch.dtype) -> None:
    check(case, device, dtype)


@pytest.mark.parametrize(("device", "dtype"), PLACES)
@pytest.mark.parametrize(
    "case",
    [Case([3, 100, 40], window=37), Case([60, 20], softcap=2.0, kv_heads=2), Case([60, 20], softcap=5.0, window=16)],
    ids=repr,
)
def test_windows_and_soft_caps(case: Case, device: str, dtype: torch.dtype) -> None:
    check(case, device, dtype)


@pytest.mark.parametrize(("device", "dtype"), PLACES)
def test_the_tiling_that_is_used(device: str, dtype: torch.dtype) -> None:
    check(Case([1, 130, 64], kv_heads=2, head_dim=128, chosen=None), device, dtype)
    check(Case([200], kv_heads=2, head_dim=128, chosen=None), device, dtype)
    check(Case([300, 40], group=16, head_dim=128, chosen=None), device, dtype)


@pytest.mark.gpu
@pytest.mark.parametrize("heads", [(8, 4), (1, 32), (4, 7), (2, 1)])
@pytest.mark.parametrize("rows", [1, 5, 64, 300])
def test_steps_of_the_size_that_is_served(rows: int, heads: tuple[int, int]) -> None:
    lengths = random.Random(rows).choices(range(1, 3000), k=rows)
    case = Case(lengths, kv_heads=heads[0], group=heads[1], head_dim=128, chosen=None)
    check(case, "cuda", torch.bfloat16)


@pytest.mark.gpu
def test_a_captured_step_follows_lengths_that_change() -> None:
    """Replayed with other slots and lengths; twice with each, and the same to the last bit unless pieces race."""
    case = Case(random.Random(3).choices(range(1, 2000), k=40), kv_heads=2, head_dim=128, chosen=None)
    kv = case.arena("cuda", torch.bfloat16)
    kernel = case.kernel(kv)
    query = torch.randn(40, case.heads, 128, device="cuda", dtype=torch.bfloat16)
    slots, lengths = (torch.tensor(numbers, device="cuda") for numbers in (case.slots, case.lengths))
    kernel.attend(kernel.plan(slots, lengths), 0, query, 0.1)  # compiled before it is captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan = kernel.plan(slots, lengths)
        outputs = [kernel.attend(plan, layer, query, 0.1) for layer in (0, 1, 0)]
    for seed in range(20):
        order = random.Random(seed).sample(range(40), 40)
        case.slots = [case.slots[row] for row in order]
        longest = [case.lengths[row] for row in order]
        case.lengths = longest
        shorter = [random.Random(seed + row).randint(1, length) for row, length in enumerate(longest)]
        for now in (longest, shorter):
            slots.copy_(torch.tensor(case.slots))
            lengths.copy_(torch.tensor(now))
            graph.replay()
            case.lengths = now
            first = [output.clone() for output in outputs]
            for layer, output in zip((0, 1, 0), first, strict=True):
                expected = case.reference(kv, layer, query, 0.1)
                assert ((output.double() - expected).norm(dim=-1) / expected.norm(dim=-1)).max() < 8e-3
            graph.replay()
            assert all(torch.equal(was, now) for was, now in zip(first, outputs, strict=True))
        case.lengths = longest


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_gpu)])
def test_a_sequence_of_no_token_attends_to_zeros(device: str) -> None:
    case = Case([20, 1])
    kernel = case.kernel(case.arena(device, torch.float16))
    plan = kernel.plan(torch.tensor(case.slots, device=device), torch.tensor([20, 0], device=device))
    output = kernel.attend(plan, 0, torch.randn(2, 4, 64, device=device).half(), 1.0)
    assert output[0].abs().min() > 0
    assert (output[1] == 0).all()


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=on_gpu)])
@pytest.mark.parametrize(
    "lengths", [[1000] * 3, [1000], [5000, 10, 10, 10], [1] * 40, list(range(1, 200)), [4096, 0, 64, 1500]]
)
@pytest.mark.parametrize("window", [None, 300])
def test_a_plan_covers_each_token_once_with_the_longest_pieces_first(
    lengths: list[int], window: int | None, device: str
) -> None:
    kv = torch.empty(1, 1, 1, 2, 2, 64, dtype=torch.float16, device=device)
    kernel = DecodeKernel(kv, 8, most_rows=200, window=window, chosen=SMALL)
    slots = [1000 + row for row in range(len(lengths))]
    plan = kernel.plan(torch.tensor(slots, device=device), torch.tensor(lengths, device=device))
    count = int(plan.count)
    assert count <= len(plan.items)
    ends: dict[int, int] = {}
    firsts = []
    for row, slot, first, end, piece, pieces, *_ in plan.items[:count].tolist():
        begins = max(0, lengths[row] - (window or lengths[row]))
        assert slot == slots[row]
        assert first == ends.get(row, begins)
        assert piece == 0 if row not in ends else piece < pieces
        assert (piece == pieces - 1) == (end == lengths[row])
        ends[row] = end
        if piece == 0:
            firsts.append(max(1, -(-(end - first) // SMALL.tile)))
    assert ends == dict(enumerate(lengths))
    assert firsts == sorted(firsts, reverse=True), "a row's last piece may be short; all others are alike"
