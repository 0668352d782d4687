"""rTree: what is recorded is found by its tokens, to the last one that agrees."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtensor.driver.base import Handle
from vtensor.extent import Extents
from vtensor.node import Tokens
from vtensor.pool import Chunk, PSet
from vtensor.rtree import RTree

P = 4


class Recorder:
    """A tree over chunks that nobody else holds, beside a plain list of what was pushed."""

    def __init__(self) -> None:
        self.pset = PSet()
        self._handles: Iterator[int] = count()
        self._ticks: Iterator[int] = count()
        self.tree = RTree(P, take=self.pset.record, drop=self.drop, unwarm=lambda _: None, clock=self.now)

    def now(self) -> float:
        return float(next(self._ticks))

    def drop(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self.pset.forget(chunk)

    def push(self, tenant: str, tokens: list[int]) -> list[Chunk]:
        chunks = [self.pset.add(Handle(next(self._handles))) for _ in range(-(-len(tokens) // P))]
        self.tree.rPush(tenant, ids(tokens), chunks)
        return chunks


def ids(tokens: list[int]) -> Tokens:
    return np.array(tokens, dtype=np.int32)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_nothing_recorded_matches_nothing(recorder: Recorder) -> None:
    assert recorder.tree.rPrefixMatch("", ids([1, 2, 3])).length == 0


def test_a_match_may_end_inside_a_recorded_run_and_inside_a_chunk(recorder: Recorder) -> None:
    chunks = recorder.push("", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    match = recorder.tree.rPrefixMatch("", ids([1, 2, 3, 4, 5, 6, 70]))
    assert (match.length, match.chunks, match.leaf) == (6, chunks[:2], None)


def test_a_match_to_the_end_finds_the_leaf(recorder: Recorder) -> None:
    chunks = recorder.push("", [1, 2, 3, 4, 5])
    match = recorder.tree.rPrefixMatch("", ids([1, 2, 3, 4, 5, 6]))
    assert (match.length, match.chunks) == (5, chunks)
    assert match.leaf is not None


def test_the_next_turn_grows_its_leaf_in_place(recorder: Recorder) -> None:
    first = recorder.push("", [1, 2, 3, 4, 5])
    second = recorder.push("", [1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert recorder.tree.extents.total.nodes == 2  # the tenant's root and one leaf
    assert recorder.tree.rPrefixMatch("", ids([1, 2, 3, 4, 5, 6, 7, 8, 9])).chunks == first[:1] + second[1:]
    assert [chunk.references for chunk in (*first, *second)] == [1, 0, 0, 1, 1]


def test_branches_share_whole_chunks_and_keep_their_own_tails(recorder: Recorder) -> None:
    left = recorder.push("", [1, 2, 3, 4, 5, 6, 7])
    right = recorder.push("", [1, 2, 3, 4, 5, 60, 70])
    assert recorder.tree.rPrefixMatch("", ids([1, 2, 3, 4, 5, 6, 7])).chunks == left
    assert recorder.tree.rPrefixMatch("", ids([1, 2, 3, 4, 5, 60, 70])).chunks == [left[0], right[1]]
    assert recorder.tree.rPrefixMatch("", ids([1, 2, 3, 4, 5, 9])).length == 5


def test_tenants_see_only_their_own(recorder: Recorder) -> None:
    """A02: the key's fields cannot imitate one another, and what matches is token ids, not a hash."""
    recorder.push("ann", [1, 2, 3, 4])
    assert recorder.tree.rPrefixMatch("bob", ids([1, 2, 3, 4])).length == 0
    assert recorder.tree.rPrefixMatch("", ids([1, 2, 3, 4])).length == 0
    assert recorder.tree.rPrefixMatch("ann", ids([1, 2, 3, 4])).length == 4


def test_the_least_recently_used_leaf_goes_first_from_its_end(recorder: Recorder) -> None:
    recorder.push("", [1, 2, 3, 4, 5, 6, 7, 8, 9])
    recorder.push("", [1, 2, 3, 4, 50, 60])
    recorder.tree.rPrefixMatch("", ids([1, 2, 3, 4, 5, 6, 7, 8, 9]))
    lengths = []
    while recorder.tree.evict():
        lengths.append(
            tuple(
                recorder.tree.rPrefixMatch("", ids(t)).length for t in ([1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 4, 50])
            )
        )
    assert lengths == [(9, 4), (8, 4), (4, 4), (0, 0)]
    assert recorder.tree.extents == Extents()


def test_what_a_running_vtensor_maps_is_not_evicted(recorder: Recorder) -> None:
    chunks = recorder.push("", [1, 2, 3, 4, 5])
    recorder.pset.take(chunks[1])
    assert not recorder.tree.evict()
    recorder.pset.drop(chunks[1])
    assert recorder.tree.evict()


def test_only_what_was_not_used_lately_expires(recorder: Recorder) -> None:
    recorder.push("", [1, 2])
    recorder.push("", [3, 4])
    since = recorder.now()
    recorder.tree.rPrefixMatch("", ids([1, 2]))
    assert recorder.tree.evict(since)
    assert not recorder.tree.evict(since)
    assert recorder.tree.rPrefixMatch("", ids([1, 2])).length == 2


few = st.lists(st.integers(0, 2), min_size=1, max_size=14)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["push", "match", "evict"]), few), max_size=30))
def test_a_match_is_the_longest_prefix_of_anything_recorded(steps: list[tuple[str, list[int]]]) -> None:
    """Against a list of token lists; eviction may only shorten what is found, and frees one chunk a call."""
    recorder = Recorder()
    pushed: list[list[int]] = []
    evicted = False
    for act, tokens in steps:
        if act == "push":
            recorder.push("", tokens)
            pushed.append(tokens)
        elif act == "evict":
            held = sum(chunk.references for chunk in recorder.pset)
            freed = recorder.tree.evict()
            evicted |= freed
            assert sum(chunk.references for chunk in recorder.pset) == held - freed
        match = recorder.tree.rPrefixMatch("", ids(tokens))
        longest = max((agreement(tokens, other) for other in pushed), default=0)
        assert match.length <= longest
        assert evicted or match.length == longest
        assert len(match.chunks) == -(-match.length // P)
        assert all(chunk.references == 1 for chunk in match.chunks)
        assert recorder.tree.extents.total.tokens == sum(len(node.tokens) for node in recorder.tree.walk())


def agreement(left: list[int], right: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
