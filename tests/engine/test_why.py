"""Knowing why: each answer says where its prefix came from, and why there was no more of it. Every reason is brought
about here with a real model, and what its table row says is what a client is told.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from chatserve.engine.messages import Generate, PrefixMemory, Reuse, ReuseStop
from chatserve.model.sampling import SamplingParams
from tests.engine.lab import CHUNK, CHUNK_BYTES, Lab, Oracle, ids

P = CHUNK
LOWEST = 101


def told(lab: Lab, prompt: list[int], **fields: object) -> Reuse:
    """What an answer of one token says of its prompt."""
    name = f"asked {len(lab.answers)}"
    lab.answer(name, prompt, max_tokens=1, **fields)
    reuses = [delta.reuse for delta in lab.answers[name].deltas if delta.reuse is not None]
    assert len(reuses) == 1, "it is told once, with the first that is told"
    assert reuses[0].tokens + (reuses[0].stop is None) <= len(prompt)
    return reuses[0]


def another(token: int) -> int:
    return (token + 1) % 199


PAST = ids(3 * P + 9)
TURN = [*PAST, *ids(5, 1)]


def nothing_recorded(_lab: Lab) -> tuple[list[int], Reuse]:
    return PAST, Reuse(stop=ReuseStop(0, "nothing_recorded", PAST[0]))


def another_tenant(lab: Lab) -> tuple[list[int], Reuse]:
    """Told as if there were none."""
    lab.answer("theirs", PAST, max_tokens=1, tenant="another")
    return PAST, Reuse(stop=ReuseStop(0, "nothing_recorded", PAST[0]))


def reuse_off(lab: Lab) -> tuple[list[int], Reuse]:
    lab.answer("before", PAST, max_tokens=1)
    return PAST, Reuse(stop=ReuseStop(0, "reuse_off"))


def all_but_the_last(lab: Lab) -> tuple[list[int], Reuse]:
    lab.answer("before", PAST, max_tokens=1)
    return PAST, Reuse(mapped=3 * P, copied=8)


def the_next_turn(lab: Lab) -> tuple[list[int], Reuse]:
    lab.answer("before", PAST, max_tokens=1)
    return TURN, Reuse(taken_over=len(PAST), stop=ReuseStop(len(PAST), "record_ends", TURN[len(PAST)]))


def another_token(lab: Lab) -> tuple[list[int], Reuse]:
    lab.answer("before", PAST, max_tokens=1)
    at = P + 5
    turn = [*PAST[:at], another(PAST[at]), *PAST[at + 1 :]]
    return turn, Reuse(mapped=P, copied=5, stop=ReuseStop(at, "differs", turn[at], PAST[at]))


def evicted(lab: Lab) -> tuple[list[int], Reuse]:
    lab.answer("before", PAST, max_tokens=1)
    lab.answer("large", ids(6 * P - 1, 2), max_tokens=1)
    return PAST, Reuse(mapped=2 * P, stop=ReuseStop(2 * P, "evicted", PAST[2 * P]))


def below_unit(lab: Lab) -> tuple[list[int], Reuse]:
    """A chunk is needed to copy nine rows into, and only the one that they would be copied from can be given up."""
    whole = ids(8 * P - 1, 3)
    lab.answer("before", whole, max_tokens=1)
    turn = [*whole[: 7 * P + 9], *ids(5, 4)]
    return turn, Reuse(mapped=7 * P, stop=ReuseStop(7 * P, "below_unit", turn[7 * P]))


def flushed(lab: Lab) -> tuple[list[int], Reuse]:
    lab.answer("before", PAST, max_tokens=1)
    lab.engine.flush().result(10)
    return PAST, Reuse(stop=ReuseStop(0, "flushed", PAST[0]))


TABLE = [
    nothing_recorded,
    another_tenant,
    reuse_off,
    all_but_the_last,
    the_next_turn,
    another_token,
    evicted,
    below_unit,
    flushed,
]


@pytest.mark.parametrize("happens", TABLE, ids=lambda happens: happens.__name__)
def test_what_each_miss_says(make_lab: Callable[..., Lab], happens: Callable[[Lab], tuple[list[int], Reuse]]) -> None:
    lab = make_lab(kv_chunks=8)
    prompt, expected = happens(lab)
    before = lab.stats()
    assert told(lab, prompt, reuse=happens is not reuse_off) == expected
    after = lab.stats()
    for origin in ("taken_over", "mapped", "copied", "promoted"):
        name = f"{origin}_tokens"
        assert getattr(after, name) - getattr(before, name) == getattr(expected, origin)
    assert after.cached_tokens - before.cached_tokens == expected.tokens
    if expected.stop is not None:
        name = f"stops_{expected.stop.why}"
        assert getattr(after, name) == getattr(before, name) + 1


def test_what_was_distrusted_says_so(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab()
    lab.answer("before", PAST, max_tokens=1)
    lab.engine._memory._mapper.submit(lambda manager: manager.distrust(manager.create(1))).result(10)
    assert told(lab, PAST) == Reuse(stop=ReuseStop(0, "distrusted", PAST[0]))


def looked_up(lab: Lab, tokens: list[int], *, warm: bool = False, tenant: str = "") -> PrefixMemory:
    from_engine = lab.engine.warm if warm else lab.engine.look
    return from_engine(tenant, np.array(tokens, dtype=np.int32)).result(10)


def warm_up(lab: Lab, tokens: list[int]) -> None:
    prompt = np.array(tokens, dtype="<i4").tobytes()
    lab.ask("warm", [1])  # for the place where its deltas go
    lab.run()
    lab.answers["warm"].deltas.clear()
    lab.engine.add(Generate(id="warm", prompt=prompt, params=SamplingParams(max_tokens=1), priority=LOWEST, warms=True))


def test_the_memory_of_a_conversation_is_seen_without_being_used(lab: Lab) -> None:
    lab.answer("before", PAST, max_tokens=1)
    memory = looked_up(lab, PAST)
    assert (memory.tokens, memory.recorded, memory.warm, memory.stop) == (len(PAST), len(PAST), True, None)
    assert (memory.physical_chunks, memory.shared_chunks) == (4, 0)
    assert looked_up(lab, PAST, tenant="another").recorded == 0


def test_what_was_evicted_is_computed_again_before_the_turn_comes(make_lab: Callable[..., Lab], oracle: Oracle) -> None:
    lab = make_lab(kv_chunks=8)
    lab.answer("before", PAST, max_tokens=1)
    lab.answer("large", ids(7 * P - 1, 2), max_tokens=1)
    assert looked_up(lab, PAST, warm=True).recorded < len(PAST)
    generated = lab.stats().generated_tokens
    warm_up(lab, PAST)
    lab.run()
    assert (lab.answers["warm"].tokens, lab.answers["warm"].finish) == ([], "length")
    assert lab.stats().generated_tokens == generated + 8, "only what was asked to make a place for its answer"
    assert looked_up(lab, PAST, warm=True).warm
    answer = lab.answer("next", TURN, max_tokens=6)
    assert answer.deltas[0].reuse is not None
    assert answer.deltas[0].reuse.taken_over == len(PAST)
    assert oracle.agrees(TURN, answer.tokens)


def test_a_warm_up_is_dropped_where_another_needs_its_memory(make_lab: Callable[..., Lab]) -> None:
    lab = make_lab(kv_chunks=8, step_tokens=64)
    warm_up(lab, ids(6 * P, 5))
    lab.run(until=lambda: bool(lab.engine.running()))
    lab.answer("turn", ids(6 * P, 6), max_tokens=2)
    assert lab.answers["turn"].finish == "length"
    assert lab.answers["warm"].finish == "dropped"
    assert lab.stats().preemptions == 0


def test_a_warm_up_can_be_given_up_at_any_time(lab: Lab) -> None:
    warm_up(lab, ids(6 * P, 5))
    lab.turn()
    lab.engine.stop("warm", None)
    lab.run()
    assert lab.answers["warm"].tokens == []
    assert (lab.stats().running, lab.stats().waiting, lab.stats().slots_in_use) == (0, 0, 0)


def test_a_turn_goes_on_from_what_its_warm_up_has_computed(make_lab: Callable[..., Lab], oracle: Oracle) -> None:
    lab = make_lab(step_tokens=64)
    past = ids(6 * P, 5)
    warm_up(lab, past)
    lab.run(until=lambda: any(request.computed >= 2 * P for request in lab.engine.running()))
    turn = [*past, 1, 2]
    answer = lab.answer("turn", turn, max_tokens=4)
    assert answer.cached is not None
    assert 2 * P <= answer.cached < 6 * P
    assert (lab.answers["warm"].tokens, lab.answers["warm"].finish) == ([], "dropped")
    assert oracle.agrees(turn, answer.tokens)


def test_ten_forks_at_once_share_all_but_their_tails(lab: Lab) -> None:
    past = ids(1000, 7)
    whole = len(past) // P
    lab.answer("past", past, max_tokens=1)
    before = lab.stats()
    for fork in range(10):
        lab.ask(f"fork {fork}", [*past[:-1], fork, fork], max_tokens=4)
    lab.run(until=lambda: len(lab.engine.running()) == 8)
    now = lab.stats()
    assert now.shared_bytes >= whole * CHUNK_BYTES["cpu"]
    assert now.private_bytes - before.private_bytes <= 8 * CHUNK_BYTES["cpu"]
    lab.run()
    for fork in range(10):
        reuse = lab.answers[f"fork {fork}"].deltas[0].reuse
        assert reuse is not None
        assert (reuse.mapped, reuse.copied) == (whole * P, len(past) - 1 - whole * P)
    assert lab.stats().computed_tokens - before.computed_tokens == 10 * (2 + 3)
