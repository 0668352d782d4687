"""Requests of every kind in any order over too little memory: each ends, none fails, and nothing is left."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from tests.engine.lab import CHUNK, Lab, ids

P = CHUNK


def ask_anything(lab: Lab, draw: random.Random, name: str) -> None:
    stem = ids(draw.choice([1, 2, P - 1, P, P + 1, 2 * P]), draw.randrange(3))
    lab.ask(
        name,
        stem + ids(draw.randrange(30), int(name)),
        max_tokens=draw.choice([1, 2, 30, P]),
        priority=draw.randrange(3),
        hold=draw.random() < 0.3,
        reuse=draw.random() < 0.8,
        tenant=draw.choice("ab"),
    )


def end_everything(lab: Lab) -> None:
    """Run on, confirming held answers as a server would, until there is nothing to do."""
    for _ in range(20_000):
        for name, answer in lab.answers.items():
            if answer.finish is not None:
                lab.engine.stop(name, None)
        if not lab.engine.busy:
            return
        lab.turn()
    raise AssertionError("some request never ends")


@pytest.mark.parametrize("seed", range(12))
def test_any_company_ends(make_lab: Callable[..., Lab], seed: int) -> None:
    draw = random.Random(seed)
    lab = make_lab(
        kv_chunks=draw.choice([4, 6, 10]), max_running=draw.choice([1, 2, 8]), step_tokens=draw.choice([8, 64, 256])
    )
    asked = 0
    for _ in range(60):
        act = draw.random()
        if act < 0.35:
            ask_anything(lab, draw, str(asked))
            asked += 1
        elif act < 0.5 and asked:
            lab.engine.stop(str(draw.randrange(asked)), draw.choice([None, 0, 1, 5]))
        elif act < 0.53:
            lab.engine.flush()
        else:
            lab.step()
    end_everything(lab)
    assert not [answer.error for answer in lab.answers.values() if answer.finish == "failed"]
    stats = lab.stats()
    assert (stats.running, stats.waiting, stats.slots_in_use) == (0, 0, 0)


def test_an_answer_decided_before_memory_came_back_is_asked_again(make_lab: Callable[..., Lab]) -> None:
    """The mapper refuses while another runs; that one leaves before the engine hears of it."""
    lab = make_lab(kv_chunks=6, max_running=4)
    lab.ask("a", ids(3 * P), max_tokens=12)
    lab.run(until=lambda: len(lab.answers["a"].tokens) == 11)
    gate = threading.Event()
    held = lab.engine._memory._mapper.submit(lambda _: gate.wait(10))  # the one place that must look inside
    lab.ask("b", ids(3 * P, 1), max_tokens=1, reuse=False)
    lab.step(audit=False)
    gate.set()
    held.result(10)
    lab.run()
    assert lab.answers["b"].finish == "length"


def test_answers_whose_stop_never_comes_hold_nobody_up(make_lab: Callable[..., Lab]) -> None:
    """A slow reader of a held answer is not waited for by others: its memory is recorded and taken."""
    lab = make_lab(kv_chunks=8, max_running=2)
    for n in range(8):
        lab.answer(f"held {n}", ids(P - 5, n), max_tokens=3, hold=True)
    assert lab.answer("next", ids(2 * P, 99), max_tokens=3 * P).finish == "length"
    lab.engine.stop("held 0", 2)
    lab.engine.stop("held 7", 2)


def test_an_urgent_request_does_not_wait_for_a_less_urgent_ones_prompt(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(step_tokens=8, max_running=4)
    lab.ask("leader", ids(4 * P), max_tokens=1, priority=5)
    lab.step()
    lab.step()
    lab.ask("urgent", [*ids(4 * P), 1, 2], max_tokens=1, priority=-9)
    lab.run(until=lambda: lab.answers["urgent"].finish is not None)
    assert lab.answers["leader"].finish is None
    lab.run()
