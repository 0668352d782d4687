"""The engine's memory on a GPU: the oracle's answers, in float32, whatever happens to the memory under them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.lab import CHUNK, Lab, Oracle, ids

pytestmark = pytest.mark.gpu
P = CHUNK


@pytest.fixture
def lab(make_lab: Callable[..., Lab]) -> Lab:
    return make_lab(device="cuda")


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
    lab = make_lab(device="cuda", kv_chunks=8)
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
