"""Where a vTensor's first rows came from, and why there were no more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.vtensor.test_manager import P, ids, longer
from vtensor.manager import Manager
from vtensor.node import Tokens
from vtensor.reuse import Reuse, Stop, Why


def converse(manager: Manager, tokens: Tokens) -> None:
    """A turn from its match to its record; what its rows hold is nobody's business here."""
    manager.prefix_record(manager.prefix_match("", tokens, len(tokens)).vtensor, "", tokens)
    manager.audit()


def reuse(manager: Manager, tokens: Tokens, tenant: str = "") -> Reuse:
    """Of a request that leaves nothing behind."""
    admitted = manager.prefix_match(tenant, tokens, 1)
    manager.release(admitted.vtensor)
    return admitted.reuse


def test_all_but_the_last_token_is_no_stop(manager: Manager) -> None:
    tokens = ids(3 * P)
    converse(manager, tokens)
    assert reuse(manager, tokens) == Reuse(mapped=2 * P, copied=P - 1)
    assert reuse(manager, longer(tokens, 1)) == Reuse(taken_over=3 * P)


def test_a_new_turn_reuses_all_there_is(manager: Manager) -> None:
    tokens = ids(2 * P + 9)
    converse(manager, tokens)
    turn = longer(tokens, 5)
    assert reuse(manager, turn) == Reuse(
        taken_over=len(tokens), stop=Stop(len(tokens), Why.RECORD_ENDS, int(turn[len(tokens)]))
    )


@pytest.mark.parametrize("at", [1, P - 1, P, P + 1, 2 * P + 9])
def test_the_first_differing_token_is_named(manager: Manager, at: int) -> None:
    """Inside a run, and where two records part already."""
    tokens = ids(3 * P)
    for extra in ids(2, 5):
        converse(manager, longer(tokens, P, int(extra)))
        turn = tokens.copy()
        turn[at] += 1
        stop = Stop(at, Why.DIFFERS, int(turn[at]), int(tokens[at]))
        assert reuse(manager, turn) == Reuse(mapped=at // P * P, copied=at % P, stop=stop)


def test_where_records_part_the_latest_used_is_shown(manager: Manager) -> None:
    stem = ids(P + 3)
    for seed in (5, 6):
        converse(manager, longer(stem, 4, seed))
    stop = reuse(manager, longer(stem, 4, 7)).stop
    assert stop == Stop(len(stem), Why.DIFFERS, int(ids(1, 7)[0]), int(ids(1, 6)[0]))


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_what_was_evicted_is_known_by_where_it_was_cut(make_manager: Callable[..., Manager], chunks: int) -> None:
    manager = make_manager(limit=4)
    tokens = ids(3 * P - 4)
    converse(manager, tokens)
    manager.release(manager.create((1 + chunks) * P))
    at = (3 - chunks) * P
    assert reuse(manager, tokens).stop == Stop(at, Why.EVICTED, int(tokens[at]))
    if at:
        other = tokens.copy()
        other[at] += 1
        assert reuse(manager, other).stop == Stop(at, Why.RECORD_ENDS, int(other[at]))


def test_a_cut_is_known_after_the_path_went_another_way(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(limit=4)
    tokens = ids(3 * P)
    converse(manager, tokens)
    manager.release(manager.create(2 * P))
    converse(manager, longer(tokens[: 2 * P], 3, 9))
    assert reuse(manager, tokens).stop == Stop(2 * P, Why.EVICTED, int(tokens[2 * P]))
    manager.flush()
    assert reuse(manager, tokens).stop == Stop(0, Why.FLUSHED, int(tokens[0]))


def test_a_branch_that_was_evicted_whole_is_known_where_it_left(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(limit=5)
    stem = ids(P)
    first, second = longer(stem, P, 5), longer(stem, P, 6)
    converse(manager, first)
    converse(manager, second)
    manager.release(manager.create(3 * P))
    assert reuse(manager, first).stop == Stop(P, Why.EVICTED, int(first[P]))
    assert reuse(manager, second) == Reuse(mapped=P, copied=P - 1)


def test_a_flush_is_told_only_of_what_was_recorded_then(manager: Manager) -> None:
    tokens = ids(2 * P)
    converse(manager, tokens)
    manager.flush()
    manager.flush()  # of nothing: what is known of the first stays
    assert reuse(manager, tokens).stop == Stop(0, Why.FLUSHED, int(tokens[0]))
    assert reuse(manager, ids(2 * P, 3)).stop == Stop(0, Why.NOTHING_RECORDED, int(ids(1, 3)[0]))
    converse(manager, longer(tokens[:P], 3))
    assert reuse(manager, tokens).stop == Stop(P, Why.FLUSHED, int(tokens[P]))


def test_what_was_distrusted_is_told_as_that(manager: Manager) -> None:
    tokens = ids(P)
    converse(manager, tokens)
    manager.distrust(manager.create(1))
    assert reuse(manager, tokens).stop == Stop(0, Why.DISTRUSTED, int(tokens[0]))


def test_less_than_a_chunk_is_not_reused_where_there_is_no_memory_to_copy_it(
    make_manager: Callable[..., Manager],
) -> None:
    manager = make_manager(limit=4)
    converse(manager, ids(4 * P))
    turn = longer(ids(4 * P)[: 3 * P + 9], 10)
    assert reuse(manager, turn) == Reuse(mapped=3 * P, stop=Stop(3 * P, Why.BELOW_UNIT, int(turn[3 * P])))


@pytest.mark.parametrize("happens", ["recorded", "flushed", "evicted"])
def test_one_tenant_is_told_nothing_of_another(make_manager: Callable[..., Manager], happens: str) -> None:
    manager = make_manager(limit=4)
    tokens = ids(3 * P)
    converse(manager, tokens)
    if happens == "flushed":
        manager.flush()
    if happens == "evicted":
        manager.release(manager.create(3 * P))
    nothing = Reuse(stop=Stop(0, Why.NOTHING_RECORDED, int(tokens[0])))
    assert reuse(manager, tokens, "another") == nothing


def test_a_look_at_a_conversation_says_what_it_holds(manager: Manager) -> None:
    stem = ids(2 * P)
    one, two = longer(stem, P + 3, 5), longer(stem, 9, 6)
    converse(manager, one)
    alone = manager.look("", one)
    assert (alone.recorded, alone.physical_chunks, alone.shared_chunks, alone.warm) == (len(one), 4, 0, True)
    assert alone.stop is None
    assert list(alone.mapped.values()) == [4]
    converse(manager, two)
    assert (manager.look("", one).physical_chunks, manager.look("", one).shared_chunks) == (4, 2)
    assert manager.look("another", one).recorded == 0


def test_a_look_does_not_save_from_eviction(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(limit=4)
    converse(manager, ids(P, 5))
    converse(manager, ids(P, 6))
    manager.look("", ids(P, 5))
    manager.release(manager.create(3 * P))
    assert (manager.look("", ids(P, 5)).recorded, manager.look("", ids(P, 6)).recorded) == (0, P)


def test_warming_up_makes_the_next_turn_a_takeover(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(slots=1)
    tokens = ids(2 * P + 9)
    converse(manager, tokens)
    manager.release(manager.create(1))  # the only slot
    assert not manager.look("", tokens).warm
    before = manager.stats()
    assert manager.warm("", tokens)
    manager.audit()
    assert manager.look("", tokens).warm
    calls = manager.stats().driver_calls
    assert manager.warm("", tokens)  # once more costs nothing
    assert (manager.stats().driver_calls, manager.stats().physical_chunks) == (calls, before.physical_chunks)
    converse(manager, longer(tokens, 20))
    assert manager.stats().takeovers == before.takeovers + 1


def test_only_where_a_record_ends_is_there_a_slot_to_warm(manager: Manager) -> None:
    tokens = ids(2 * P)
    converse(manager, tokens)
    assert not manager.warm("", tokens[:P])
    assert not manager.warm("another", tokens)
    assert manager.warm("", longer(tokens, 1))  # the last token of an answer is never computed


def test_a_slot_is_not_warmed_over_rows_that_someone_writes(manager: Manager) -> None:
    tokens = ids(P + 9)
    author = manager.create(2 * P)
    manager.publish(author, "", tokens)
    assert not manager.warm("", tokens)
    manager.release(author)
    assert manager.warm("", tokens)
