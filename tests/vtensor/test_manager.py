"""The vTensor Manager's acts, each with what it may call and what it must leave as it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.vtensor.watched import WatchedDriver
from vtensor.manager import Manager
from vtensor.node import Tokens
from vtensor.operations import OutOfChunks, OutOfSlots
from vtensor.pool import VTensor
from vtensor.reusing import Origin

P = 64


def ids(length: int, seed: int = 0) -> Tokens:
    return np.random.default_rng(seed).integers(0, 1000, length, dtype=np.int32)


def longer(tokens: Tokens, extra: int, seed: int = 1) -> Tokens:
    return np.concatenate([tokens, ids(extra, seed)])


def write(rows: torch.Tensor, vtensor: VTensor, start: int, tokens: Tokens) -> None:
    """Each row holds its token, as a model's KV would depend on it."""
    view = rows[vtensor.slot.index, start : start + len(tokens)]
    view.copy_(torch.from_numpy(tokens)[:, None, None, None, None].expand_as(view))


def read(rows: torch.Tensor, vtensor: VTensor, length: int) -> list[float]:
    view = rows[vtensor.slot.index, :length].flatten(1)
    assert view.eq(view[:, :1]).all()
    return view[:, 0].tolist()


def converse(manager: Manager, rows: torch.Tensor, tokens: Tokens) -> None:
    """A turn from its match to its record."""
    admitted = manager.prefix_match("", tokens, len(tokens))
    write(rows, admitted.vtensor, admitted.cached, tokens[admitted.cached :])
    assert read(rows, admitted.vtensor, len(tokens)) == tokens.tolist()
    manager.prefix_record(admitted.vtensor, "", tokens)
    manager.audit()


def test_create_maps_whole_chunks_and_release_calls_nothing(manager: Manager, driver: WatchedDriver) -> None:
    vtensor = manager.create(P + 1)
    assert vtensor.rows == 2 * P
    calls = len(driver.calls)
    manager.release(vtensor)
    assert len(driver.calls) == calls
    assert manager.stats().free_chunks == 2


def test_a_new_vtensor_finds_the_leftovers_of_the_last_in_place(manager: Manager, driver: WatchedDriver) -> None:
    manager.release(manager.create(3 * P))
    calls = len(driver.calls)
    vtensor = manager.create(3 * P)
    assert len(driver.calls) == calls
    manager.release(vtensor)


def test_the_next_turn_takes_the_warm_slot_over_without_a_call(
    manager: Manager, rows: torch.Tensor, driver: WatchedDriver
) -> None:
    tokens = ids(5 * P + 10)
    converse(manager, rows, tokens)
    calls = len(driver.calls)
    admitted = manager.prefix_match("", longer(tokens, 20), 20)
    assert len(driver.calls) == calls
    assert (admitted.origin, admitted.cached) == (Origin.TAKEN_OVER, len(tokens))
    assert read(rows, admitted.vtensor, len(tokens)) == tokens.tolist()
    manager.audit()
    manager.release(admitted.vtensor)


def test_a_branch_at_chunk_k_maps_k_chunks_and_copies_one_tail(
    manager: Manager, rows: torch.Tensor, driver: WatchedDriver
) -> None:
    tokens = ids(6 * P)
    converse(manager, rows, tokens)
    driver.calls.clear()
    admitted = manager.prefix_match("", longer(tokens[: 3 * P + 7], 5), 5)
    assert (admitted.origin, admitted.cached, admitted.reuse.mapped, admitted.reuse.copied) == (
        Origin.MAPPED,
        3 * P + 7,
        3 * P,
        7,
    )
    assert driver.calls == ["map"] * 3 + ["create", "map", "copy"]
    assert read(rows, admitted.vtensor, admitted.cached) == tokens[: admitted.cached].tolist()
    manager.audit()
    manager.release(admitted.vtensor)


@pytest.mark.parametrize("length", [P - 1, P, P + 1, 2 * P - 1, 2 * P, 2 * P + 1])
def test_at_least_the_last_token_is_left_to_compute(manager: Manager, rows: torch.Tensor, length: int) -> None:
    """A01: one prompt twice, at and around a chunk's edge."""
    tokens = ids(length)
    converse(manager, rows, tokens)
    before = manager.stats()
    admitted = manager.prefix_match("", tokens, 1)
    assert admitted.cached == length - 1
    write(rows, admitted.vtensor, length - 1, tokens[-1:])
    manager.audit()
    manager.release(admitted.vtensor)
    assert manager.stats().private_chunks == before.private_chunks


@pytest.mark.parametrize("branches", [2, 4])
def test_branches_inside_a_chunk_never_write_into_one_another(
    manager: Manager, rows: torch.Tensor, branches: int
) -> None:
    """A03: several continuations of k * P + P / 2 tokens at once."""
    tokens = ids(2 * P + P // 2)
    converse(manager, rows, tokens)
    before = manager.stats()
    turns = [longer(tokens, P, seed) for seed in range(2, 2 + branches)]
    running = [manager.prefix_match("", turn, P).vtensor for turn in turns]
    manager.audit()
    for turn, vtensor in zip(turns, running, strict=True):
        write(rows, vtensor, len(tokens), turn[len(tokens) :])
    for turn, vtensor in zip(turns, running, strict=True):
        assert read(rows, vtensor, len(turn)) == turn.tolist()
    for vtensor in running:
        manager.release(vtensor)
    after = manager.stats()
    assert (after.private_chunks, after.shared_chunks) == (before.private_chunks, before.shared_chunks)


def test_a_running_conversation_can_be_forked(manager: Manager, rows: torch.Tensor) -> None:
    tokens = ids(3 * P + 5)
    author = manager.create(len(tokens) + P)
    write(rows, author, 0, tokens)
    manager.publish(author, "", tokens)
    fork = manager.prefix_match("", longer(tokens, 3), 3)
    assert (fork.cached, fork.reuse.mapped, fork.reuse.copied) == (len(tokens), 3 * P, 5)
    write(rows, author, len(tokens), ids(9, 5))
    write(rows, fork.vtensor, len(tokens), ids(9, 6))
    assert read(rows, author, len(tokens) + 9) == longer(tokens, 9, 5).tolist()
    assert read(rows, fork.vtensor, len(tokens) + 9) == longer(tokens, 9, 6).tolist()
    manager.audit()
    manager.release(author)
    manager.release(fork.vtensor)


def test_a_duplicate_is_repointed_to_the_trees_chunks_before_it_is_freed(manager: Manager, rows: torch.Tensor) -> None:
    """A05: two cold turns with one prefix of three chunks; the second to finish holds its own copies."""
    prefix = ids(3 * P)
    turns = [longer(prefix, 10, 5), longer(prefix, 10, 6)]
    running = [manager.prefix_match("", turn, len(turn)).vtensor for turn in turns]
    for turn, vtensor in zip(turns, running, strict=True):
        write(rows, vtensor, 0, turn)
    for turn, vtensor in zip(turns, running, strict=True):
        manager.prefix_record(vtensor, "", turn)
        manager.audit()
    assert manager.stats().private_chunks == 3 + 2
    for _ in range(4):  # recycle what was freed, with other content
        filler = manager.create(4 * P)
        write(rows, filler, 0, np.full(4 * P, -1, dtype=np.int32))
        manager.release(filler)
    for turn in turns:
        admitted = manager.prefix_match("", longer(turn, 1), 1)
        assert admitted.origin is Origin.TAKEN_OVER
        assert read(rows, admitted.vtensor, len(turn)) == turn.tolist()
        manager.release(admitted.vtensor)


def test_a_duplicate_of_a_turn_that_is_taken_over_does_not_become_warm(manager: Manager, rows: torch.Tensor) -> None:
    """Its tail chunk would be the one that the turn taking over writes into."""
    tokens = ids(2 * P + 9)
    first, second = manager.create(len(tokens)), manager.create(len(tokens))
    for vtensor in (first, second):
        write(rows, vtensor, 0, tokens)
    manager.prefix_record(first, "", tokens)
    turn = manager.prefix_match("", longer(tokens, 5), 5)
    assert turn.origin is Origin.TAKEN_OVER
    manager.prefix_record(second, "", tokens)
    manager.audit()
    assert manager.stats().slots_warm == 0


def test_a_warm_slot_is_taken_back_without_losing_a_chunk(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(slots=2)
    first, second = ids(P + 1, 1), ids(P + 1, 2)
    for tokens in (first, second):
        manager.prefix_record(manager.create(len(tokens)), "", tokens)
    runner = manager.create(1)
    manager.audit()
    assert manager.stats().slots_warm == 1
    manager.release(runner)
    assert manager.prefix_match("", longer(first, 1), 1).origin is Origin.MAPPED
    assert manager.prefix_match("", longer(second, 1), 1).origin is Origin.TAKEN_OVER


def test_without_slots_or_chunks_the_act_says_so_and_changes_nothing(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(slots=2, limit=4)
    vtensor = manager.create(2 * P)
    with pytest.raises(OutOfChunks, match="3 chunks of 64 tokens are needed and 2 can be had; the limit is 4"):
        manager.create(3 * P)
    with pytest.raises(OutOfChunks):
        manager.extend(vtensor, 5 * P)
    assert vtensor.rows == 2 * P
    manager.audit()
    other = manager.create(1)
    with pytest.raises(OutOfSlots, match="all 2 slots are in use"):
        manager.create(1)
    manager.release(other)
    manager.release(vtensor)


def test_an_act_that_must_fail_evicts_nothing(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(limit=4)
    manager.prefix_record(manager.create(2 * P), "", ids(2 * P))
    manager.create(P)
    with pytest.raises(OutOfChunks):
        manager.create(2 * P, headroom=2)
    assert manager.prefix_match("", longer(ids(2 * P), 1), 1).cached == 2 * P


def test_memory_for_a_running_vtensor_comes_from_what_was_recorded(make_manager: Callable[..., Manager]) -> None:
    manager = make_manager(limit=6)
    for seed in range(3):
        manager.prefix_record(manager.create(2 * P), "", ids(2 * P, seed))
    vtensor = manager.create(3 * P)
    assert manager.stats().evicted_chunks == 3
    assert manager.prefix_match("", longer(ids(2 * P, 2), 1), 1).cached == 2 * P
    manager.audit()
    manager.extend(vtensor, 3 * P)


def test_evicting_frees_physical_memory_chunk_for_chunk(make_manager: Callable[..., Manager]) -> None:
    """A07: a chunk is a physical handle, so what eviction counts is what the device gets back."""
    manager = make_manager(slots=4, limit=200)
    for seed in range(50):
        manager.prefix_record(manager.create(4 * P), "", ids(4 * P, seed))
    assert manager.stats().physical_chunks == 200
    vtensors = [manager.create(15 * P) for _ in range(4)]
    assert manager.stats().evicted_chunks == 60
    for vtensor in vtensors:
        manager.release(vtensor)
    manager.give_back()
    assert manager.stats().physical_chunks == 140


def test_free_chunks_above_the_reserve_go_back_and_recorded_ones_stay(
    make_manager: Callable[..., Manager], driver: WatchedDriver
) -> None:
    manager = make_manager(reserve=2)
    manager.prefix_record(manager.create(3 * P), "", ids(3 * P))
    manager.release(manager.create(6 * P))
    manager.give_back()
    assert driver.chunks == 3 + 2
    assert manager.prefix_match("", longer(ids(3 * P), 1), 1).cached == 3 * P


def test_after_a_flush_only_the_reserve_is_left(make_manager: Callable[..., Manager], driver: WatchedDriver) -> None:
    manager = make_manager(reserve=1)
    for seed in range(4):
        manager.prefix_record(manager.create(3 * P), "", ids(3 * P, seed))
    manager.flush()
    manager.audit()
    assert driver.chunks == 1
    assert manager.prefix_match("", longer(ids(3 * P), 1), 1).cached == 0


def test_a_recycled_chunk_is_made_writable_by_a_call(manager: Manager, rows: torch.Tensor) -> None:
    tokens = ids(2 * P)
    converse(manager, rows, tokens)
    reader = manager.prefix_match("", longer(tokens[: 2 * P - 1], 5), 5)
    assert reader.origin is Origin.MAPPED
    manager.release(reader.vtensor)
    manager.flush()
    for _ in range(8):
        writer = manager.create(2 * P)
        write(rows, writer, 0, tokens)
        manager.audit()


def test_a_recycled_chunk_can_no_longer_be_read_where_it_was(manager: Manager, driver: WatchedDriver) -> None:
    first = manager.create(P)
    second = manager.create(P)
    manager.release(first)
    manager.extend(second, 2 * P)
    manager.audit()
    assert sorted(driver.mapped.values()) == sorted(driver.handles)


def test_the_last_sequence_standing_can_always_reach_the_limit(
    make_manager: Callable[..., Manager],
) -> None:
    """A branch's source, held by the rTree, must not be the one chunk too many."""
    manager = make_manager(limit=4)
    manager.prefix_record(manager.create(4 * P), "", ids(4 * P))
    admitted = manager.prefix_match("", longer(ids(4 * P)[: 3 * P + 9], 10), 10)
    assert admitted.cached in (3 * P, 3 * P + 9)
    manager.extend(admitted.vtensor, 4 * P)
    manager.audit()


@pytest.mark.parametrize("nth", range(1, 12))
@pytest.mark.parametrize("act", ["create", "extend", "take over", "branch"])
def test_a_failing_call_leaves_everything_as_it_was_and_the_retry_works(
    make_manager: Callable[..., Manager], driver: WatchedDriver, act: str, nth: int
) -> None:
    """A06: every create, map, protect and copy call of every act is made to fail once."""
    manager, tokens = make_manager(), ids(3 * P + 9)
    if act in ("take over", "branch"):
        manager.prefix_record(manager.create(len(tokens)), "", tokens)
    running = manager.create(P)
    acts: dict[str, Callable[[], object]] = {
        "create": lambda: manager.create(3 * P),
        "extend": lambda: manager.extend(running, 4 * P),
        "take over": lambda: manager.prefix_match("", longer(tokens, 3 * P), 3 * P),
        "branch": lambda: manager.prefix_match("", longer(tokens[: 2 * P + 5], 3 * P), 3 * P),
    }
    before = manager.stats()
    driver.fail_at = nth
    try:
        acts[act]()
    except OutOfChunks:
        after = manager.stats()
        assert (after.private_chunks, after.shared_chunks) == (before.private_chunks, before.shared_chunks)
        assert (after.slots_in_use, after.slots_warm) == (before.slots_in_use, before.slots_warm)
        manager.audit()
        acts[act]()
    driver.fail_at = None
