"""Steps run in order in a thread of their own, and say how they ended."""

from __future__ import annotations

import threading

import pytest
import torch

from chatserve.model.batch import Sample
from chatserve.model.errors import BadLogits
from chatserve.model.sampling import SamplingParams
from tests.model.tiny import Tiny, make_batch, make_runner, make_tiny, tiny_config

PROMPT = [5, 6, 7, 8, 9, 10, 11]


@pytest.fixture
def runner(llama: Tiny):
    runner = make_runner(llama.model, llama.arena(4, 64))
    yield runner
    runner.close()


def greedy(tiny: Tiny, prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(tiny.reference(tokens)[-1].argmax()))
    return tokens[len(prompt) :]


def test_greedy_tokens_are_the_references(llama, runner):
    answer: list[int] = []
    new, start = PROMPT, 0
    for _ in range(12):
        (token,) = runner.launch(make_batch([(2, start, new)])).tokens()
        answer.append(token)
        start, new = start + len(new), [token]
    assert answer == greedy(llama, PROMPT, 12)


def test_a_step_without_samples_yields_no_tokens(llama, runner):
    """A10: no sampling before the last chunk."""
    assert runner.launch(make_batch([(0, 0, PROMPT[:4])], sampled=[])).tokens() == []
    (token,) = runner.launch(make_batch([(0, 4, PROMPT[4:])])).tokens()
    assert token == greedy(llama, PROMPT, 1)[0]


def test_launched_steps_run_in_order(llama, runner):
    first = runner.launch(make_batch([(1, 0, PROMPT[:3])], sampled=[]))
    second = runner.launch(make_batch([(1, 3, PROMPT[3:])]))
    assert second.tokens() == greedy(llama, PROMPT, 1)
    assert first.done()


def test_who_asked_is_called_back_when_a_step_is_done(runner):
    called = threading.Event()
    launched = runner.launch(make_batch([(0, 0, PROMPT)]))
    launched.when_done(called.set)
    launched.wait()
    assert called.wait(5)
    assert launched.done()


def test_tokens_come_in_the_order_of_the_samples(llama, runner):
    parts = [(0, 0, PROMPT), (3, 0, PROMPT[::-1])]
    backwards = runner.launch(make_batch(parts, sampled=[1, 0])).tokens()
    assert backwards == greedy(llama, PROMPT[::-1], 1) + greedy(llama, PROMPT, 1)


def test_broken_logits_fail_their_own_row_only():
    """A15: the error names the row and brings the neighbours' tokens."""
    tiny = make_tiny(tiny_config("llama"))
    arena = tiny.arena(2, 32)
    runner = make_runner(tiny.model, arena)
    runner.launch(make_batch([(0, 0, PROMPT), (1, 0, PROMPT)])).tokens()
    arena[1, 2] = float("nan")
    launched = runner.launch(make_batch([(0, 7, [12]), (1, 7, [12])]))
    launched.wait()
    with pytest.raises(BadLogits, match=r"samples \[1\] of 2") as caught:
        launched.tokens()
    runner.close()
    assert caught.value.rows == (1,)
    assert caught.value.tokens == [*greedy(tiny, [*PROMPT, 12], 1), -1]


def test_a_step_that_fails_does_not_stop_the_next(llama, runner):
    absurd = make_batch([(0, 0, [10**6])])
    with pytest.raises(IndexError):
        runner.launch(absurd).tokens()
    assert runner.launch(make_batch([(0, 0, PROMPT)])).tokens() == greedy(llama, PROMPT, 1)


def test_a_seed_gives_the_same_tokens_alone_and_among_others(runner):
    """A17."""
    params = SamplingParams(max_tokens=1, temperature=1.0, seed=7)
    alone = runner.launch(make_batch([(0, 0, PROMPT)], [Sample(0, params, 0, (), ())])).tokens()
    others = [(slot, 0, PROMPT[slot:]) for slot in (3, 1)]
    batch = make_batch([*others, (2, 0, PROMPT)], [Sample(index, params, 0, (), ()) for index in range(3)])
    assert runner.launch(batch).tokens()[2:] == alone


def test_closing_finishes_what_was_launched(llama):
    runner = make_runner(llama.model, llama.arena(1, 16))
    launched = runner.launch(make_batch([(0, 0, PROMPT)]))
    runner.close()
    runner.close()
    assert launched.tokens() == greedy(llama, PROMPT, 1)
    assert not torch.is_inference_mode_enabled()
