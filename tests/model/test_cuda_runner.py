"""Steps on a GPU, captured or not, one ahead or not: the same tokens as the same model on the CPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch

from chatserve.model.batch import COMING, Batch, Sample
from chatserve.model.errors import BadLogits
from chatserve.model.loaded import LoadedModel
from chatserve.model.runner import Runner, model_thread
from chatserve.model.runners import cuda_runner
from chatserve.model.sampling import SamplingParams
from chatserve.model.tensor_sources import no_progress
from tests.model.fused_tiny import fused, lively_module
from tests.model.tiny import make_batch, make_runner

pytestmark = pytest.mark.gpu
SLOTS, ROWS, SCRATCH = 12, 128, 11
TEXTS = {slot: [(7 * slot + 3 * index) % 97 for index in range(9 + slot)] for slot in range(SCRATCH)}


def arena_of(model: LoadedModel) -> torch.Tensor:
    """Finite everywhere, as memory is."""
    spec = model.spec
    return torch.zeros(SLOTS, ROWS, spec.layers, 2, spec.kv_heads, spec.head_dim, device=model.device)


def open_cuda(model: LoadedModel, arena: torch.Tensor) -> Runner:
    return cuda_runner(
        model,
        arena,
        model_thread(),
        chunk_tokens=ROWS,
        most_sequences=10,
        most_rows=SLOTS * ROWS,
        scratch=SCRATCH,
        progress=no_progress,
    )


@pytest.fixture(params=["llama", "qwen2, biases", "qwen3, q and k norms"])
def runners(request: pytest.FixtureRequest) -> Iterator[tuple[Runner, Runner]]:
    """The GPU's and the CPU's, over the same weights."""
    module = lively_module(request.param)
    ours, theirs = fused(module, device="cuda"), fused(module)
    pair = open_cuda(ours, arena_of(ours)), make_runner(theirs, arena_of(theirs))
    yield pair
    for runner in pair:
        runner.close()


def conversation(runner: Runner, slots: Sequence[int], steps: int, *, ahead: bool) -> list[list[int]]:
    """Greedy tokens by step: prompts together, then decodes, each launched before the one before is read if `ahead`."""
    prompts = runner.launch(make_batch([(slot, 0, TEXTS[slot]) for slot in slots]))
    launched = [prompts]
    for step in range(steps):
        newest = [COMING] * len(slots) if ahead else launched[-1].tokens()
        parts = [(slot, len(TEXTS[slot]) + step, [token]) for slot, token in zip(slots, newest, strict=True)]
        launched.append(runner.launch(make_batch(parts)))
    return [each.tokens() for each in launched]


@pytest.mark.parametrize("ahead", [False, True], ids=["one by one", "ahead"])
@pytest.mark.parametrize("sequences", [1, 2, 5, 10])
def test_tokens_are_those_of_the_cpu(runners: tuple[Runner, Runner], sequences: int, ahead: bool) -> None:
    """Padded graphs and whole ones, ids from the host or from the step before."""
    ours, theirs = runners
    slots = list(range(SCRATCH))[:sequences]
    assert conversation(ours, slots, 12, ahead=ahead) == conversation(theirs, slots, 12, ahead=False)


def test_a_mixed_step_goes_on_from_tokens_that_are_coming(runners: tuple[Runner, Runner]) -> None:
    answers = []
    for runner in runners:
        first = runner.launch(make_batch([(0, 0, TEXTS[0]), (1, 0, TEXTS[1])]))
        mixed = make_batch(
            [(0, len(TEXTS[0]), [COMING]), (1, len(TEXTS[1]), [COMING]), (2, 0, TEXTS[2]), (3, 0, TEXTS[3][:4])],
            sampled=[0, 1, 2],
        )
        second = runner.launch(mixed)
        parts = [(0, len(TEXTS[0]) + 1, [COMING]), (2, len(TEXTS[2]), [COMING]), (3, 4, TEXTS[3][4:])]
        answers.append([each.tokens() for each in (first, second, runner.launch(make_batch(parts)))])
    assert answers[0] == answers[1]


def drawn(runner: Runner, params: SamplingParams, company: int) -> list[int]:
    """Twenty draws of slot 0 among others."""
    slots = range(company + 1)
    prompt = [(slot, 0, TEXTS[slot]) for slot in slots]
    tokens: list[int] = []
    for step in range(20):
        if step == 0:
            batch = with_params(make_batch(prompt), params, step)
        else:
            parts = [(slot, len(TEXTS[slot]) + step - 1, [COMING]) for slot in slots]
            batch = with_params(make_batch(parts), params, step)
        tokens.append(runner.launch(batch).tokens()[0])
    return tokens


def with_params(batch: Batch, params: SamplingParams, step: int) -> Batch:
    samples = [
        Sample(each.sequence, params if each.sequence == 0 else each.params, step, (), ()) for each in batch.samples
    ]
    return Batch(batch.token_ids, batch.positions, batch.slots, batch.starts, batch.counts, tuple(samples))


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(max_tokens=1, temperature=1.0, seed=5),
        SamplingParams(max_tokens=1, temperature=1.0, seed=5, top_k=10),
        SamplingParams(max_tokens=1, temperature=1.0, seed=5, top_p=0.8),
    ],
    ids=["plain", "top k", "top p"],
)
def test_a_seed_gives_the_same_tokens_in_any_company(runners: tuple[Runner, Runner], params: SamplingParams) -> None:
    """A17, on the device."""
    assert drawn(runners[0], params, 0) == drawn(runners[0], params, 4) == drawn(runners[0], params, 9)


def test_broken_logits_fail_their_own_row_only() -> None:
    """A15, in a captured step: and the step launched after it does not stumble over the token that is missing."""
    model = fused(lively_module("llama"), device="cuda")
    arena = arena_of(model)
    runner = open_cuda(model, arena)
    good = conversation(runner, [0, 1], 2, ahead=False)[2][0]
    arena[1, 2] = float("nan")
    parts = [(slot, len(TEXTS[slot]) + 1, [token]) for slot, token in ((0, 5), (1, 5))]
    broken = runner.launch(make_batch(parts))
    after = runner.launch(make_batch([(slot, len(TEXTS[slot]) + 2, [COMING]) for slot in (0, 1)]))
    with pytest.raises(BadLogits) as caught:
        broken.tokens()
    assert caught.value.rows == (1,)
    after.wait()
    assert 0 <= good < 97
    runner.close()


@pytest.mark.parametrize("sequences", [3, 5, 7])
def test_padded_rows_write_into_nobodys_slot(sequences: int) -> None:
    """A41: captured for other numbers of sequences, every slot somebody's. What the scratch slot holds goes nowhere."""
    model = fused(lively_module("llama"), device="cuda")
    arena = arena_of(model)
    runner = open_cuda(model, arena)
    slots = list(range(sequences))
    runner.launch(make_batch([(slot, 0, TEXTS[slot]) for slot in slots])).tokens()
    arena[sequences:SCRATCH] = 7.0
    arena[SCRATCH] = float("nan")
    before = arena.clone()
    parts = [(slot, len(TEXTS[slot]), [5 + slot]) for slot in slots]
    tokens = runner.launch(make_batch(parts)).tokens()
    changed = (arena != before).flatten(2).any(-1)
    expected = torch.zeros_like(changed)
    for slot, start, _ in parts:
        expected[slot, start] = True
    expected[SCRATCH] = changed[SCRATCH]
    assert torch.equal(changed, expected)
    assert changed[SCRATCH, 1:].all(), "NaN is not itself: only the scratch slot's first row may have been written"
    runner.close()
    reference = make_runner(fused(lively_module("llama")), arena_of(fused(lively_module("llama"))))
    reference.launch(make_batch([(slot, 0, TEXTS[slot]) for slot in slots])).tokens()
    assert tokens == reference.launch(make_batch(parts)).tokens()
    reference.close()
