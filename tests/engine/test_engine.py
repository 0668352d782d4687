"""What a request may ask of the engine, and what happens when it may not or no longer wants to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np
import pytest

from chatserve.engine.messages import EngineStats, Generate
from chatserve.model.sampling import SamplingParams
from tests.engine.lab import CHUNK, VOCABULARY, Lab, ids
from vtensor.mapper import Mapper

P = CHUNK


def held(stats: EngineStats) -> tuple[int, int, int]:
    return stats.running, stats.waiting, stats.slots_in_use


@pytest.mark.parametrize("beyond", [0, 1, P])
def test_a_prompt_that_can_never_fit_is_refused_at_once_and_holds_nobody_up(
    make_lab: Callable[..., Lab], beyond: int
) -> None:
    """A08: at, over and far over what all of memory holds."""
    lab = make_lab(kv_chunks=4)
    lab.ask("too long", ids(4 * P + beyond))
    lab.ask("next", ids(5), max_tokens=2)
    lab.run()
    answer = lab.answers["too long"]
    assert answer.finish == "refused"
    assert f"has {4 * P + beyond} tokens and the limit with the answer is {4 * P}" in str(answer.error)
    assert lab.answers["next"].finish == "length"


def test_the_longest_prompt_that_fits_is_answered_with_one_token(make_lab: Callable[..., Lab]) -> None:
    """A08, A20: whatever it asks for beyond the limit is not reserved and ends as length."""
    lab = make_lab(kv_chunks=4)
    answer = lab.answer("a", ids(4 * P - 1), max_tokens=2**31)
    assert (len(answer.tokens), answer.finish) == (1, "length")


def test_a_context_limit_ends_an_answer_as_length(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(kv_chunks=2)
    answer = lab.answer("a", ids(2 * P - 10), max_tokens=1000)
    assert (len(answer.tokens), answer.finish) == (10, "length")


@pytest.mark.parametrize("prompt", [[], [-1], [VOCABULARY]])
def test_a_prompt_that_is_no_prompt_is_refused(lab: Lab, prompt: list[int]) -> None:
    """A19: and the engine answers the next one."""
    assert lab.answer("bad", prompt).finish == "refused"
    assert lab.answer("good", [1]).finish == "length"


def test_two_requests_with_one_id_do_not_meet(lab: Lab) -> None:
    prompt = np.array([1, 2], dtype="<i4").tobytes()
    lab.ask("same", [1, 2], max_tokens=4)
    lab.engine.add(Generate(id="same", prompt=prompt, params=SamplingParams(max_tokens=4)))
    lab.run()
    assert [delta.finish for delta in lab.answers["same"].deltas] == ["refused", None, None, None, "length"]


def test_every_end_token_ends_an_answer_and_is_not_part_of_it(make_lab: Callable[..., Lab]) -> None:
    """A46: it counts as generated, once."""
    free = make_lab().answer("a", ids(9), max_tokens=12).tokens
    first = free.index(free[5])
    lab = make_lab(end_ids=[free[5], VOCABULARY - 1])
    answer = lab.answer("a", ids(9), max_tokens=12)
    assert (answer.tokens, answer.finish) == (free[:first], "stop")
    assert answer.deltas[-1].completion_tokens == first + 1
    assert lab.answer("b", ids(9), max_tokens=12, ignore_eos=True).tokens == free
    assert lab.answer("c", ids(9), max_tokens=12, stop_token_ids=(free[0],)).tokens == []


def test_after_an_end_token_the_whole_turn_is_matched(make_lab: Callable[..., Lab]) -> None:
    free = make_lab().answer("a", ids(9), max_tokens=12).tokens
    lab = make_lab(end_ids=[free[5]])
    turn = ids(9) + lab.answer("a", ids(9), max_tokens=12).tokens
    assert lab.answer("b", [*turn, 3, 4], max_tokens=1).cached == len(turn)


@pytest.mark.parametrize("others", [0, 7])
def test_a_seed_gives_the_same_tokens_in_any_company_slot_and_order(lab: Lab, others: int) -> None:
    """A17: alone, among seven others, and on a cache hit."""
    sampling = {"temperature": 1.0, "seed": -3, "max_tokens": 12}
    alone = lab.answer("alone", ids(20), **sampling, reuse=False)
    for n in range(others):
        lab.ask(f"other {n}", ids(30, n + 1), max_tokens=20, temperature=1.0, seed=n)
    lab.ask("twin", ids(20), **sampling)
    lab.ask("together", ids(20), **sampling)
    lab.run()
    assert lab.answers["together"].tokens == lab.answers["twin"].tokens == alone.tokens
    assert lab.answer("other seed", ids(20), **(sampling | {"seed": 4})).tokens != alone.tokens


def test_first_come_first_served_within_a_priority(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(max_running=1)
    for name, priority in (("c", 1), ("a", 0), ("b", 0), ("z", -5)):
        lab.ask(name, ids(4, ord(name)), max_tokens=2, priority=priority)
    ended: list[str] = []

    def note_the_ended() -> bool:
        ended.extend(name for name, answer in lab.answers.items() if answer.finish and name not in ended)
        return False

    lab.run(until=note_the_ended)
    note_the_ended()
    assert ended == ["z", "a", "b", "c"]


def test_memory_is_taken_from_the_lowest_priority_then_the_latest(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(kv_chunks=6)
    for name, priority in (("first", 0), ("second", 0), ("low", 3)):
        lab.ask(name, ids(2 * P - 20, ord(name[0])), max_tokens=P, priority=priority)
    lab.run()
    started = {name: answer.deltas for name, answer in lab.answers.items()}
    assert all(answer.finish == "length" for answer in lab.answers.values())
    assert lab.stats().preemptions >= 1
    assert len(started["low"]) == P


def test_prompts_in_chunks_do_not_hold_up_those_who_decode(make_lab: Callable[..., Lab]) -> None:
    """A10: other streams keep moving between chunks."""
    lab = make_lab(step_tokens=P)
    lab.ask("talks", ids(5), max_tokens=40)
    lab.run(until=lambda: len(lab.answers["talks"].tokens) >= 3)
    lab.ask("reads", ids(8 * P), max_tokens=1)
    before = len(lab.answers["talks"].tokens)
    lab.run(until=lambda: lab.answers["reads"].finish is not None)
    assert len(lab.answers["talks"].tokens) - before >= 8
    lab.run()


PHASES = ["queued", "admitted", "in its prompt", "at its first token", "decoding", "ended", "gone"]


@pytest.mark.parametrize("phase", PHASES)
def test_stopped_in_any_phase_nothing_is_left_within_two_steps(make_lab: Callable[..., Lab], phase: str) -> None:
    """A24: the next request starts at once, and stopping twice is harmless."""
    lab = make_lab(step_tokens=P, max_running=8)
    prompt = ids(4 * P)
    steps = {"queued": 0, "admitted": 1, "in its prompt": 3, "at its first token": 5, "decoding": 9}
    lab.ask("a", prompt, max_tokens=5 if phase in ("ended", "gone") else 500, hold=phase == "ended")
    if phase in ("ended", "gone"):
        lab.run()
    for _ in range(steps.get(phase, 0)):
        lab.step()
    lab.engine.stop("a", None)
    lab.engine.stop("a", 0)
    before = lab.stats().steps
    lab.run()
    assert held(lab.stats()) == (0, 0, 0)
    assert lab.stats().steps - before <= 2
    assert lab.answer("next", ids(3, 1), max_tokens=1).finish == "length"


def test_many_streams_abandoned_at_once_leave_nothing(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(kv_chunks=40, max_running=16)
    for n in range(32):
        lab.ask(str(n), ids(P + n, n), max_tokens=500)
    for n in range(32):
        lab.step()
        lab.engine.stop(str(n), None)
    lab.run()
    assert held(lab.stats()) == (0, 0, 0)


def test_a_turn_is_cut_to_what_was_kept_before_it_is_recorded(lab: Lab) -> None:
    """Its takeover would be lost otherwise."""
    lab.ask("a", ids(20), max_tokens=30, hold=True)
    lab.run()
    answer = lab.answers["a"].tokens
    lab.engine.stop("a", 11)
    before = lab.stats().takeovers
    following = lab.answer("b", ids(20) + answer[:11] + [5, 5, 5], max_tokens=1)
    assert following.cached == 20 + 11
    assert lab.stats().takeovers == before + 1


def test_what_a_cancelled_turn_computed_is_kept(lab: Lab) -> None:
    lab.ask("a", ids(3 * P), max_tokens=50)
    lab.run(until=lambda: len(lab.answers["a"].tokens) >= 5)
    lab.engine.stop("a", 5)
    lab.run()
    assert lab.answer("b", ids(3 * P) + lab.answers["a"].tokens[:5] + [1, 2], max_tokens=1).cached == 3 * P + 5


def test_tenants_share_nothing(lab: Lab) -> None:
    lab.answer("a", ids(2 * P), tenant="ann")
    assert lab.answer("b", ids(2 * P), tenant="bob").cached == 0
    assert lab.answer("c", ids(2 * P), tenant="ann").cached == 2 * P - 1


def test_a_flush_forgets_while_others_run_on(lab: Lab) -> None:
    lab.answer("before", ids(2 * P), max_tokens=1)
    lab.ask("running", ids(P, 3), max_tokens=30)
    lab.run(until=lambda: len(lab.answers["running"].tokens) > 3)
    lab.engine.flush().result(10)
    lab.run()
    assert len(lab.answers["running"].tokens) == 30
    assert lab.answer("again", ids(2 * P), max_tokens=1).cached == 0


def test_decoding_past_chunk_edges_never_waits_for_memory(lab: Lab) -> None:
    for n in range(8):
        lab.ask(str(n), ids(P - 3 * n, n), max_tokens=3 * P)
    lab.run()
    assert lab.stats().stalls == 0
    assert lab.stats().preemptions == 0


def test_the_counts_are_those_of_what_was_run(lab: Lab) -> None:
    lab.answer("a", ids(50), max_tokens=10)
    lab.answer("b", ids(50), max_tokens=10)
    stats = lab.stats()
    assert (stats.prompt_tokens, stats.cached_tokens, stats.generated_tokens) == (100, 49, 20)
    assert stats.computed_tokens == 50 + 9 + 1 + 9
    assert stats.physical_bytes == stats.free_bytes + stats.private_bytes + stats.shared_bytes


def test_numbers_that_go_wrong_fail_their_request_and_are_never_shared(lab: Lab) -> None:
    """A15, A41: not even with the same conversation, once the model is well again."""
    before = lab.answer("before", ids(P), max_tokens=2)
    weight = lab.model.weights.module.get_output_embeddings().weight
    healthy = weight.detach().clone()
    weight.data.fill_(float("nan"))
    answer = lab.answer("ill", ids(2 * P, 3), max_tokens=4)
    assert (answer.finish, answer.tokens) == ("failed", [])
    assert "not finite" in str(answer.error)
    weight.data.copy_(healthy)
    again = lab.answer("well", ids(2 * P, 3), max_tokens=4)
    assert (again.finish, again.cached) == ("length", 0)
    assert lab.answer("after", ids(P), max_tokens=2).tokens == before.tokens


def test_who_runs_never_waits_for_another_s_admission(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own thread admits only while nobody runs."""
    lab.ask("running", ids(9), max_tokens=40)
    lab.run(until=lambda: len(lab.answers["running"].tokens) > 2)

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("admitted while somebody waits for a step")

    monkeypatch.setattr(Mapper, "at_once", refuse)
    for number in range(3):
        lab.ask(str(number), ids(9, number + 1), max_tokens=4)
    lab.run(until=lambda: len(lab.answers["2"].tokens) == 4)
    assert len(lab.answers["running"].tokens) < 40
    monkeypatch.undo()
    lab.run()
