"""Greedy is argmax, draws follow the distribution, and no row depends on another."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from chatserve.model import penalties, sampler
from chatserve.model.batch import Sample
from chatserve.model.draws import uniform
from chatserve.model.filters import filtered
from chatserve.model.sampler import NOT_FINITE
from chatserve.model.sampling import SamplingParams

VOCAB = 3000


def params(**changes: float) -> SamplingParams:
    return SamplingParams(max_tokens=1, **changes)


def row(*, step: int = 0, prompt: tuple[int, ...] = (), output: tuple[int, ...] = (), **changes: float) -> Sample:
    return Sample(0, params(**changes), step, prompt, output)


def logits_of(seed: int, rows: int = 1, vocab: int = VOCAB, spread: float = 3.0) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * spread


def sample(logits: torch.Tensor, samples: list[Sample], coming: int = 0) -> torch.Tensor:
    return sampler.sample(logits, samples, torch.full((len(samples),), coming))


def penalized(logits: torch.Tensor, samples: list[Sample], coming: int = 0) -> torch.Tensor:
    return penalties.penalized(logits, samples, torch.full((len(samples),), coming))


def draws(logits: torch.Tensor, count: int, **changes: float) -> Counter[int]:
    """How often each token comes in `count` steps of one seed."""
    rows = [row(step=step, **changes) for step in range(count)]
    return Counter(sample(logits.expand(count, -1), rows).tolist())


def test_greedy_is_the_argmax():
    """A18."""
    logits = logits_of(1, rows=50)
    assert sample(logits, [row(temperature=0.0)] * 50).tolist() == logits.argmax(-1).tolist()


@pytest.mark.parametrize("temperature", [1e-300, 1e-45, 1e-30, 1e-6])
def test_a_tiny_temperature_acts_like_greedy(temperature):
    """A15: without overflow."""
    logits = logits_of(2, rows=8, spread=1e4)
    assert sample(logits, [row(temperature=temperature)] * 8).tolist() == logits.argmax(-1).tolist()


def test_a_huge_temperature_is_uniform():
    """A15."""
    counts = draws(logits_of(3, vocab=4), 4000, temperature=1e30)
    assert all(abs(count - 1000) < 150 for count in counts.values())


def test_a_broken_row_is_named_and_leaves_its_neighbours_alone():
    """A15."""
    logits = logits_of(4, rows=5)
    logits[1, 7] = math.nan
    logits[3, 9] = math.inf
    rows = [row(temperature=0.8, top_p=0.9, seed=seed) for seed in range(5)]
    chosen = sample(logits, rows).tolist()
    assert chosen[1] == chosen[3] == NOT_FINITE
    for good in (0, 2, 4):
        assert chosen[good] == sample(logits[good : good + 1], [rows[good]]).item()


@pytest.mark.parametrize("top_k", [0, VOCAB, VOCAB + 1])
def test_a_top_k_of_zero_or_of_everything_is_off(top_k):
    """A16."""
    logits = logits_of(5)
    assert draws(logits, 200, top_k=top_k) == draws(logits, 200)


def test_a_top_k_of_one_is_greedy():
    """A16: even where two logits are equal."""
    logits = logits_of(6)
    logits[0, [5, 9]] = 50.0
    assert draws(logits, 100, top_k=1) == {int(logits.argmax()): 100}


def test_the_same_seed_draws_the_same_token_in_any_batch_and_place():
    """A17: alone, twice at once, among others, in any order, with other settings beside it."""
    logits = logits_of(7, rows=8)
    kinds = [{}, {"top_p": 0.8}, {"top_k": 5}, {"min_p": 0.1}, {"temperature": 0.0}, {"presence_penalty": 1.0}]
    rows = [row(seed=seed % 3, step=seed, output=(seed,), **kinds[seed % len(kinds)]) for seed in range(8)]
    together = sample(logits, rows).tolist()
    alone = [sample(logits[index : index + 1], [each]).item() for index, each in enumerate(rows)]
    order = [5, 2, 7, 0, 1, 6, 3, 4]
    shuffled = sample(logits[order], [rows[index] for index in order]).tolist()
    assert together == alone
    assert shuffled == [together[index] for index in order]


def test_seeds_and_steps_are_streams_of_their_own():
    """A17: any integer is a seed."""
    numbers = {uniform(seed, step) for seed in (-1, 0, 1, 2**63, -(2**62)) for step in range(200)}
    assert len(numbers) == 1000
    assert all(0 <= number < 1 for number in numbers)
    assert uniform(-1, 3) == uniform(2**64 - 1, 3)
    assert abs(sum(uniform(0, step) for step in range(10_000)) / 10_000 - 0.5) < 0.02


def test_draws_follow_the_distribution():
    logits = logits_of(8, vocab=10, spread=1.5)
    counts = draws(logits, 20_000, temperature=0.7)
    expected = (logits[0] / 0.7).softmax(-1)
    for token, share in enumerate(expected.tolist()):
        assert abs(counts[token] / 20_000 - share) < 0.015


def test_what_has_no_weight_never_comes():
    logits = torch.full((1, 50), -math.inf)
    logits[0, [3, 40]] = 0.0
    assert set(draws(logits, 2000)) == {3, 40}


@given(
    seed=st.integers(0, 10_000),
    spread=st.sampled_from([0.01, 0.5, 2.0, 6.0]),
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
    top_k=st.sampled_from([0, 2, 40, 1500, 2500]),
    top_p=st.sampled_from([0.05, 0.5, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.02, 0.5, 1.0]),
)
def test_filters_keep_what_transformers_keeps(seed, spread, temperature, top_k, top_p, min_p):
    """Together, in the same order; only a token right on the edge of top_p may fall to either side by rounding."""
    logits = logits_of(seed, spread=spread)
    warpers = LogitsProcessorList([TemperatureLogitsWarper(temperature)])
    warpers.extend([TopKLogitsWarper(top_k)] if top_k else [])
    warpers.extend([TopPLogitsWarper(top_p)] if top_p < 1 else [])
    warpers.extend([MinPLogitsWarper(min_p)] if min_p else [])
    expected = warpers(torch.zeros(1, 1, dtype=torch.int64), logits).isfinite()
    scaled = (logits - logits.max()) / temperature
    kept = filtered(scaled, [params(top_k=top_k, top_p=top_p, min_p=min_p)]).isfinite()
    assert abs(int(kept.sum()) - int(expected.sum())) <= 1 + 0.01 * float(expected.sum())
    assert bool((kept <= expected).all() | (expected <= kept).all())
    assert kept[0, logits.argmax()]


def test_repetition_sees_prompt_and_output_as_transformers_does():
    logits = logits_of(9)
    seen = (5, 17, 5, 900)
    expected = RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([seen]), logits.clone())
    changed = penalized(logits, [row(repetition_penalty=1.3, prompt=seen[:2], output=seen[2:])])
    torch.testing.assert_close(changed, expected)


def test_presence_and_frequency_see_the_output_only():
    logits = logits_of(10)
    changed = penalized(
        logits, [row(presence_penalty=0.5, frequency_penalty=0.25, prompt=(1, 2), output=(7, 7, 7, 2999))]
    )
    expected = logits.clone()
    expected[0, 7] -= 0.5 + 3 * 0.25
    expected[0, 2999] -= 0.5 + 0.25
    torch.testing.assert_close(changed, expected)


@pytest.mark.parametrize("coming", [7, 2999, 11])
def test_a_token_that_is_still_coming_counts_as_generated(coming: int):
    """A step launched ahead penalizes what the step before it brings, seen before or not."""
    logits = logits_of(5)
    penalty = {"repetition_penalty": 1.3, "presence_penalty": 0.5, "frequency_penalty": 0.25, "prompt": (1, 2)}
    known = penalized(logits, [row(output=(7, 7, 2999, coming), **penalty)])
    ahead = dataclasses.replace(row(output=(7, 7, 2999), **penalty), coming=True)
    assert torch.equal(penalized(logits, [ahead], coming), known)


def test_penalties_change_neither_neighbours_nor_the_given_logits():
    logits = logits_of(11, rows=2)
    before = logits.clone()
    changed = penalized(logits, [row(), row(presence_penalty=2.0, output=(3,))])
    assert torch.equal(logits, before)
    assert torch.equal(changed[0], before[0])


def test_no_samples_give_no_tokens():
    assert sample(torch.empty(0, VOCAB), []).tolist() == []
