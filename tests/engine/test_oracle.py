"""Greedy output with reuse, branching, chunking, preemption and company equals the same request alone without any."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.lab import CHUNK, Lab, Oracle, ids

P = CHUNK


def test_a_prompt_is_answered_as_the_oracle_does(lab: Lab, oracle: Oracle) -> None:
    answer = lab.answer("a", ids(20), max_tokens=12)
    assert (len(answer.tokens), answer.finish, answer.cached) == (12, "length", 0)
    assert oracle.agrees(ids(20), answer.tokens)


@pytest.mark.parametrize("length", [P, 2 * P - 1, 2 * P, 2 * P + 1])
@pytest.mark.parametrize("max_tokens", [1, 8])
def test_a_prompt_sent_twice(lab: Lab, oracle: Oracle, length: int, max_tokens: int) -> None:
    """A01: at least the last token is computed again, and nothing shared is written over."""
    prompt = ids(length)
    first = lab.answer("first", prompt, max_tokens=max_tokens)
    second = lab.answer("second", prompt, max_tokens=max_tokens)
    assert second.cached == length - 1
    assert first.tokens == second.tokens
    assert oracle.agrees(prompt, second.tokens)


@pytest.mark.parametrize("cached", [0, P, 4 * P])
@pytest.mark.parametrize("length", [4 * P - 1, 4 * P, 4 * P + 1, 8 * P, 8 * P + P])
def test_a_chunked_prompt(make_lab: Callable[..., Lab], oracle: Oracle, length: int, cached: int) -> None:
    """A10: prompts at the edges of a budget of four chunks, with some of it recorded before."""
    lab, prompt = make_lab(step_tokens=4 * P), ids(length)
    if cached:
        lab.answer("before", [*prompt[:cached], 1], max_tokens=1)
    answer = lab.answer("a", prompt, max_tokens=6)
    assert answer.cached is not None
    assert answer.cached >= min(cached, length - 1)
    assert oracle.agrees(prompt, answer.tokens)


def test_a_conversation_never_computes_its_past_twice(lab: Lab, oracle: Oracle) -> None:
    history: list[int] = []
    for turn in range(6):
        prompt = history + ids(30, turn)
        answer = lab.answer(f"turn {turn}", prompt, max_tokens=25)
        assert answer.cached >= len(history) - 1
        assert oracle.agrees(prompt, answer.tokens)
        history = prompt + answer.tokens
    stats = lab.stats()
    assert stats.takeovers == 5
    assert stats.stalls == 0


@pytest.mark.parametrize("branches", [2, 4])
def test_branches_from_the_middle_of_a_chunk(lab: Lab, oracle: Oracle, branches: int) -> None:
    """A03: several continuations at once, each as alone."""
    stem = ids(2 * P + P // 2)
    lab.answer("stem", stem, max_tokens=3)
    prompts = {f"branch {n}": stem + ids(10, n) for n in range(branches)}
    for name, prompt in prompts.items():
        lab.ask(name, prompt, max_tokens=P)
    lab.run()
    for name, prompt in prompts.items():
        assert lab.answers[name].cached == len(stem)
        assert oracle.agrees(prompt, lab.answers[name].tokens)


def test_two_cold_requests_with_one_prefix(make_lab: Callable[..., Lab], oracle: Oracle) -> None:
    """A05: in one step, with little memory, so that what is freed is used again at once."""
    lab = make_lab(kv_chunks=12)
    prefix = ids(3 * P)
    prompts = {name: prefix + ids(9, seed) for seed, name in enumerate(("one", "two"))}
    for name, prompt in prompts.items():
        lab.ask(name, prompt, max_tokens=P)
    for filler in range(6):
        lab.ask(f"filler {filler}", ids(P, 50 + filler), max_tokens=4)
    lab.run()
    for name, prompt in prompts.items():
        assert oracle.agrees(prompt, lab.answers[name].tokens)


def test_many_cold_requests_compute_their_common_prefix_once(make_lab: Callable[..., Lab], oracle: Oracle) -> None:
    """A11: the rest wait for the first, and share what it recorded."""
    lab = make_lab(kv_chunks=200, max_running=32)
    system = ids(8 * P)
    prompts = {str(n): system + ids(7, n) for n in range(32)}
    for name, prompt in prompts.items():
        lab.ask(name, prompt, max_tokens=2)
    lab.run()
    assert sum(lab.answers[name].cached for name in prompts) >= 31 * 8 * P
    assert lab.stats().computed_tokens <= 8 * P + 32 * (7 + 2)
    for name in ("0", "17", "31"):
        assert oracle.agrees(prompts[name], lab.answers[name].tokens)


def test_a_crowd_that_shares_what_is_recorded_starts_together(make_lab: Callable[..., Lab]) -> None:
    """Nobody waits for another's prompt when what they have in common need not be computed."""
    lab = make_lab(kv_chunks=200, max_running=16)
    system = ids(2 * P)
    lab.answer("system", system, max_tokens=2)
    before = lab.stats().steps
    for n in range(16):
        lab.ask(str(n), system + ids(7, n), max_tokens=3)
    lab.run()
    assert lab.stats().steps - before == 3
    assert [lab.answers[str(n)].cached for n in range(16)] == [2 * P] * 16


def test_those_who_waited_for_a_cancelled_leader_go_on_without_it(make_lab: Callable[..., Lab]) -> None:
    """A11: no stall if the leader is cancelled."""
    lab = make_lab(kv_chunks=200, step_tokens=P)
    system = ids(8 * P)
    for n in range(4):
        lab.ask(str(n), system + ids(7, n), max_tokens=2)
    lab.run(until=lambda: lab.stats().computed_tokens >= 2 * P)
    lab.engine.stop("0", None)
    lab.run()
    assert [lab.answers[str(n)].finish for n in (1, 2, 3)] == ["length"] * 3


HOW = [{}, {"temperature": 1.0, "seed": 5}, {"repetition_penalty": 1.3}, {"frequency_penalty": 0.5}]


@pytest.mark.parametrize("sampling", HOW)
def test_requests_that_lack_memory_neither_repeat_nor_lose_a_token(
    make_lab: Callable[..., Lab], sampling: dict[str, float]
) -> None:
    """A09: four requests and memory for about one and a half; the same as with memory for all."""
    wide, narrow = make_lab(kv_chunks=64), make_lab(kv_chunks=8)
    names = ("a", "b", "c", "d")
    for lab in (wide, narrow):
        for name in names:
            lab.ask(name, ids(3, ord(name)), max_tokens=4 * P, **sampling)
        lab.run()
    assert narrow.stats().preemptions >= 2
    for name in names:
        assert narrow.answers[name].tokens == wide.answers[name].tokens
        assert [d.completion_tokens for d in narrow.answers[name].deltas] == list(range(1, 4 * P + 1))
        assert narrow.answers[name].cached == 0


@pytest.mark.parametrize("sampling", HOW)
def test_a_request_preempted_again_and_again(make_lab: Callable[..., Lab], sampling: dict[str, float]) -> None:
    """A09: by more urgent ones, in the middle of its prompt and of its answer."""
    alone = make_lab().answer("low", ids(P + 9), max_tokens=30, **sampling)
    lab = make_lab(max_running=1, step_tokens=16)
    lab.ask("low", ids(P + 9), max_tokens=30, priority=1, **sampling)
    for n in range(8):
        lab.run(until=lambda n=n: lab.stats().computed_tokens >= 20 * (n + 1) and n == len(lab.answers) - 1)
        lab.ask(f"urgent {n}", ids(5, n), max_tokens=3)
    lab.run()
    assert lab.stats().preemptions >= 3
    assert lab.answers["low"].tokens == alone.tokens


def test_eight_conversations_together(lab: Lab, oracle: Oracle) -> None:
    histories = {str(n): ids(5 + 40 * n, n) for n in range(8)}
    for turn in range(3):
        prompts = {name: history + ids(11, turn) for name, history in histories.items()}
        for name, prompt in prompts.items():
            lab.ask(f"{name}.{turn}", prompt, max_tokens=10)
        lab.run()
        for name, prompt in prompts.items():
            answer = lab.answers[f"{name}.{turn}"]
            assert oracle.agrees(prompt, answer.tokens)
            histories[name] = prompt + answer.tokens
    assert lab.stats().takeovers == 16
