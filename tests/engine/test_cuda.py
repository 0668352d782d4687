"""The engine's memory on a GPU: the oracle's answers, in float32, whatever happens to the memory under them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.engine.lab import CHUNK, Lab, Oracle, ids

pytestmark = pytest.mark.gpu
P = CHUNK


@pytest.fixture(params=[False, True], ids=["transformers", "fused, captured"])
def make_lab(make_lab: Callable[..., Lab], request: pytest.FixtureRequest) -> Callable[..., Lab]:
    return partial(make_lab, device="cuda", fused=request.param)


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    return make_lab()


def test_a_conversation_takes_its_slot_over_turn_by_turn(lab: Lab, oracle: Oracle) -> None:
    history: list[int] = []
    for turn in range(5):
        prompt = history + ids(30, turn)
        answer = lab.answer(f"turn {turn}", prompt, max_tokens=40)
        assert answer.cached >= len(history) - 1
        assert oracle.agrees(prompt, answer.tokens)
        history = prompt + answer.tokens
    assert lab.stats().takeovers == 4
    assert lab.stats().stalls == 0


def test_branches_inside_a_chunk(lab: Lab, oracle: Oracle) -> None:
    """A03, with real copies on the compute stream."""
    stem = ids(2 * P + P // 2)
    lab.answer("stem", stem, max_tokens=3)
    prompts = {f"branch {n}": stem + ids(10, n) for n in range(4)}
    for name, prompt in prompts.items():
        lab.ask(name, prompt, max_tokens=P)
    lab.run()
    for name, prompt in prompts.items():
        assert lab.answers[name].cached == len(stem)
        assert oracle.agrees(prompt, lab.answers[name].tokens)


def test_requests_that_lack_memory(make_lab: Callable[..., Lab], oracle: Oracle) -> None:
    """A09: preempted, recorded, evicted, resumed."""
    lab = make_lab(kv_chunks=8)
    for name in "abcd":
        lab.ask(name, ids(3, ord(name)), max_tokens=3 * P)
    lab.run()
    assert lab.stats().preemptions >= 1
    for name in "abcd":
        assert oracle.agrees(ids(3, ord(name)), lab.answers[name].tokens)


@pytest.mark.parametrize("others", [0, 7])
def test_a_seed_in_any_company(lab: Lab, others: int) -> None:
    """A17."""
    sampling = {"temperature": 1.0, "seed": 11, "max_tokens": 20}
    alone = lab.answer("alone", ids(20), **sampling, reuse=False)
    for n in range(others):
        lab.ask(f"other {n}", ids(30, n + 1), max_tokens=20, temperature=1.0, seed=n)
    lab.ask("together", ids(20), **sampling)
    lab.run()
    assert lab.answers["together"].tokens == alone.tokens


def test_a_flush_gives_the_device_its_memory_back(lab: Lab) -> None:
    for n in range(6):
        lab.answer(str(n), ids(3 * P, n), max_tokens=4)
    assert lab.stats().physical_bytes > 0
    lab.engine.flush().result(10)
    assert lab.stats().physical_bytes == 0


def test_a_token_sampled_ahead_of_the_end_is_never_seen(make_lab: Callable[..., Lab], oracle: Oracle) -> None:
    """A step is in the air when an end token is read: what it brings is dropped, the rest is found by the next turn."""
    prompt = ids(30)
    whole = make_lab().answer("whole", prompt, max_tokens=40).tokens
    end = next(token for token in whole[5:] if whole.index(token) >= 5)
    lab = make_lab(end_ids=[end])
    answer = lab.answer("cut", prompt, max_tokens=40)
    assert (answer.tokens, answer.finish) == (whole[: whole.index(end)], "stop")
    history = prompt + answer.tokens
    following = lab.answer("next", [*history, 3, 4, 5], max_tokens=10)
    assert following.cached >= len(history) - 1
    assert oracle.agrees([*history, 3, 4, 5], following.tokens)


def test_penalties_and_filters_in_company(lab: Lab) -> None:
    """What the captured draw does not know is chosen after it, from the same logits."""
    kinds = {
        "greedy": {},
        "penalty": {"presence_penalty": 1.5, "repetition_penalty": 1.2},
        "top k": {"temperature": 0.8, "top_k": 5, "seed": 3},
        "top p": {"temperature": 0.8, "top_p": 0.7, "seed": 4},
        "plain": {"temperature": 0.8, "seed": 5},
    }
    alone = {name: lab.answer(name, ids(20), max_tokens=30, reuse=False, **kind).tokens for name, kind in kinds.items()}
    for name, kind in kinds.items():
        lab.ask(f"{name} again", ids(20), max_tokens=30, reuse=False, **kind)
    lab.run()
    for name, tokens in alone.items():
        assert lab.answers[f"{name} again"].tokens == tokens


def test_greedy_answers_alone_and_in_groups(make_lab: Callable[..., Lab], oracle: Oracle) -> None:
    """A18: twenty prompts alone, then two and eight at a time; a difference only where two logits are nearly tied."""
    prompts = {str(n): ids(10 + 3 * n, n) for n in range(20)}
    for group in (1, 2, 8):
        lab = make_lab(max_running=group)
        for name, prompt in prompts.items():
            lab.ask(name, prompt, max_tokens=12, reuse=False)
        lab.run()
        for name, prompt in prompts.items():
            assert oracle.agrees(prompt, lab.answers[name].tokens)
