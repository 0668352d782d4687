"""A picture of the rTree is true, changes nothing, and foretells in which order leaves are given up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.vtensor.test_manager_properties import Acts
from vtensor.driver.base import Handle
from vtensor.manager import Manager
from vtensor.node import Tokens
from vtensor.picture import Picture, PictureNode, Rest, take_picture
from vtensor.pool import Chunk, PSet
from vtensor.rtree import RTree

P = 64
TENANTS = ("", "ann")


def ids(length: int, *, stem: int = 0, of: int = 0) -> Tokens:
    """`stem` tokens of run 0, then those of run `of`."""
    tokens = np.arange(length, dtype=np.int32) % 50 + 100 * of
    tokens[:stem] = np.arange(stem) % 50
    return tokens


def record(manager: Manager, tokens: Tokens, *, tenant: str = "", label: str = "") -> None:
    vtensor = manager.prefix_match(tenant, np.append(tokens, [9999]).astype(np.int32), len(tokens)).vtensor
    manager.extend(vtensor, len(tokens))
    manager.prefix_record(vtensor, tenant, tokens, label=label)


def named(picture: Picture, label: str) -> PictureNode:
    (node,) = (node for node in picture.nodes if node.label == label)
    return node


def test_nothing_recorded_is_an_empty_picture(manager: Manager) -> None:
    assert manager.picture("", most=9) == Picture((), Rest(0, 0), Rest(0, 0))


def test_two_branches_hang_below_what_they_share(manager: Manager) -> None:
    record(manager, ids(3 * P), label="one")
    record(manager, ids(3 * P, stem=P + 5, of=1), label="two")
    picture = manager.picture("", most=9)
    stem, one, two = picture.nodes[0], named(picture, "one"), named(picture, "two")
    assert (stem.parent, stem.start, stem.end, stem.chunks, stem.shared) == (None, 0, P + 5, 1, True)
    for leaf in (one, two):
        assert (leaf.parent, leaf.start, leaf.end, leaf.chunks, leaf.shared) == (stem.id, P + 5, 3 * P, 2, False)
        assert (leaf.in_use, leaf.warm) == (False, True)
    assert (stem.next, one.next, two.next) == (None, 0, 1)
    assert one.idle >= two.idle >= 0


def test_a_leaf_keeps_its_id_when_it_grows_and_when_a_branch_splits_it(manager: Manager) -> None:
    record(manager, ids(2 * P), label="one")
    first = named(manager.picture("", most=9), "one")
    record(manager, ids(3 * P), label="one")
    record(manager, ids(3 * P, stem=P, of=1), label="two")
    later = named(manager.picture("", most=9), "one")
    assert (first.id, first.start) == (later.id, 0)
    assert (later.start, later.end) == (P, 3 * P)


def test_what_a_branch_splits_keeps_its_place(manager: Manager) -> None:
    for number in (1, 2, 3):
        record(manager, ids(2 * P, of=number), label=str(number))
    two = ids(3 * P, stem=P, of=4)
    two[:P] = ids(P, of=2)
    record(manager, two, label="branch")
    firsts = [node for node in manager.picture("", most=9).nodes if node.parent is None]
    assert [(node.label, node.end) for node in firsts] == [("1", 2 * P), ("", P), ("3", 2 * P)]


def test_a_leaf_is_called_as_it_was_recorded_last_and_no_name_leaves_it_its_own(manager: Manager) -> None:
    record(manager, ids(P), label="one")
    record(manager, ids(2 * P), label="two")
    record(manager, ids(2 * P + 1))
    assert [node.label for node in manager.picture("", most=9).nodes] == ["two"]


def test_what_runs_is_in_use_and_not_given_up(manager: Manager) -> None:
    record(manager, ids(2 * P), label="one")
    running = manager.prefix_match("", ids(2 * P + 1), 1).vtensor
    (leaf,) = manager.picture("", most=9).nodes
    assert (leaf.in_use, leaf.shared, leaf.warm, leaf.next) == (True, False, False, None)
    manager.release(running)
    (leaf,) = manager.picture("", most=9).nodes
    assert (leaf.in_use, leaf.next) == (False, 0)


def test_what_two_run_on_is_shared(manager: Manager) -> None:
    record(manager, ids(2 * P))
    running = [manager.prefix_match("", ids(2 * P + 1, stem=P + 1, of=3), 1).vtensor for _ in range(2)]
    (leaf,) = manager.picture("", most=9).nodes
    assert (leaf.shared, leaf.in_use) == (True, True)
    for vtensor in running:
        manager.release(vtensor)


def test_what_a_running_vtensor_has_published_has_its_name_already(manager: Manager) -> None:
    vtensor = manager.create(P)
    manager.publish(vtensor, "", ids(P), label="one")
    assert named(manager.picture("", most=9), "one").in_use
    manager.release(vtensor)


def test_of_other_tenants_only_sums_are_told(manager: Manager) -> None:
    record(manager, ids(2 * P), tenant="ann", label="secret")
    record(manager, ids(2 * P, stem=5, of=1), tenant="ann", label="secret too")
    record(manager, ids(P))
    picture = manager.picture("", most=9)
    assert [node.label for node in picture.nodes] == [""]
    assert (picture.more, picture.others) == (Rest(0, 0), Rest(3, 4))
    assert picture.nodes[0].next == 2  # they were used before it


def test_too_many_are_those_used_last_with_all_before_them(manager: Manager) -> None:
    record(manager, ids(2 * P), label="alone")
    record(manager, ids(2 * P, stem=P, of=1), label="old")
    record(manager, ids(3 * P, of=2), label="one")
    record(manager, ids(3 * P, stem=P, of=3), label="new")
    shown = manager.picture("", most=2)
    assert [node.label for node in shown.nodes] == ["", "new"]
    assert shown.nodes[1].parent == shown.nodes[0].id
    assert shown.more == Rest(3, 5)
    focused = manager.picture("", most=2, focus=["one"])
    assert "one" in [node.label for node in focused.nodes]


def test_what_went_back_to_the_device_is_counted(manager: Manager) -> None:
    record(manager, ids(3 * P))
    assert manager.stats().given_back_chunks == 0
    manager.flush()
    assert manager.stats().given_back_chunks == 3


def test_a_device_with_memory_of_its_own_says_how_much_is_free(manager: Manager) -> None:
    device = manager.device_memory()
    assert device is None or 0 < device.free < device.total


class Pictured(Acts):
    """After every act, whatever failed in it, for both tenants."""

    @rule()
    def evict(self) -> None:
        """The one that is next, and no other."""
        before = leaves(self.manager)
        upcoming = [leaf for leaf in before.values() if leaf.next == 0]
        assert self.manager._evict() == bool(upcoming)
        assert taken(before, leaves(self.manager)) == [leaf.id for leaf in upcoming]

    @invariant()
    def pictures_are_true_and_change_nothing(self) -> None:
        tree = self.manager._tree
        before, calls, queue = self.manager.stats(), len(self.driver.calls), list(tree._leaves._entries)
        used = Counter(chunk for vtensor in self.running for chunk in vtensor.chunks)
        for tenant in TENANTS:
            picture = self.manager.picture(tenant, most=100)
            check_whole(picture, tree, tenant, used)
            for most in range(4):
                check_part(self.manager.picture(tenant, most=most), picture, most)
        ranks = sorted(leaf.next for leaf in leaves(self.manager).values() if leaf.next is not None)
        assert ranks == list(range(len(ranks)))
        assert (self.manager.stats(), len(self.driver.calls)) == (before, calls)
        assert tree._leaves._entries == queue


def check_whole(picture: Picture, tree: RTree, tenant: str, used: Counter[Chunk]) -> None:
    """Against the tree itself."""
    nodes = {node.serial: node for node in tree.walk() if node.tenant == tenant and node.parent is not None}
    assert sorted(node.id for node in picture.nodes) == sorted(nodes)
    ends = {None: 0}
    for drawn in picture.nodes:
        node = nodes[drawn.id]
        assert drawn.start == ends[drawn.parent]
        ends[drawn.id] = drawn.end
        assert (drawn.start, drawn.end, drawn.chunks) == (node.start, node.end, len(node.chunks))
        assert drawn.in_use == any(used[chunk] for chunk in node.chunks)
        assert drawn.shared == (bool(node.children) or any(used[chunk] > 1 for chunk in node.chunks))
        assert drawn.warm == (node.warm is not None)
        assert (drawn.next is not None) == (not node.children and not used[node.chunks[-1]])
    assert picture.more == Rest(0, 0)
    others = [node for node in tree.walk() if node.tenant != tenant and node.parent is not None]
    assert picture.others == Rest(len(others), sum(len(node.chunks) for node in others))


def check_part(part: Picture, whole: Picture, most: int) -> None:
    """As many as may be, none without its parent, and the rest as sums."""
    shown = {node.id for node in part.nodes}
    assert len(shown) == min(most, len(whole.nodes))
    assert {node.parent for node in part.nodes} <= shown | {None}
    left = [node for node in whole.nodes if node.id not in shown]
    assert part.more == Rest(len(left), sum(node.chunks for node in left))
    assert part.others == whole.others


def leaves(manager: Manager) -> dict[int, PictureNode]:
    nodes = [node for tenant in TENANTS for node in manager.picture(tenant, most=100).nodes]
    inner = {node.parent for node in nodes}
    return {node.id: node for node in nodes if node.id not in inner}


def taken(before: dict[int, PictureNode], after: dict[int, PictureNode]) -> list[int]:
    """The leaves of which something is gone."""
    return [leaf.id for leaf in before.values() if leaf.id not in after or after[leaf.id].end < leaf.end]


TestPictured = Pictured.TestCase
TestPictured.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


@dataclass
class Forest:
    """Only an rTree, by a clock that often stands still, so that many leaves were last used at one time."""

    pset: PSet = field(default_factory=PSet)
    handles: Iterator[int] = field(default_factory=count)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.tree = RTree(4, take=self.pset.record, drop=self.drop, unwarm=lambda _: None, clock=lambda: self.now)

    def drop(self, chunks: Sequence[Chunk]) -> None:
        for chunk in chunks:
            self.pset.forget(chunk)

    def push(self, tokens: list[int]) -> None:
        chunks = [self.pset.add(Handle(next(self.handles))) for _ in range(-(-len(tokens) // 4))]
        self.tree.rPush("", np.array(tokens, dtype=np.int32), chunks)

    def match(self, tokens: list[int]) -> None:
        self.tree.rPrefixMatch("", np.array(tokens, dtype=np.int32))

    def wait(self, _: list[int]) -> None:
        self.now += 1

    def evict(self, _: list[int]) -> None:
        self.tree.evict()

    def use(self, tokens: list[int]) -> None:
        """Somebody runs on it from now on."""
        for chunk in self.tree.rPrefixMatch("", np.array(tokens, dtype=np.int32)).chunks:
            self.pset.take(chunk)

    def picture(self) -> Picture:
        return take_picture(self.tree, "", most=1000, focus=(), now=self.now)

    def leaves(self) -> dict[int, PictureNode]:
        nodes = self.picture().nodes
        inner = {node.parent for node in nodes}
        return {node.id: node for node in nodes if node.id not in inner}


some = st.lists(st.integers(0, 2), min_size=1, max_size=14)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["push", "push", "match", "wait", "evict", "use"]), some), max_size=40))
def test_leaves_are_given_up_in_the_order_that_the_picture_foretells(steps: list[tuple[str, list[int]]]) -> None:
    forest = Forest()
    acts: dict[str, Callable[[list[int]], None]] = {
        name: getattr(forest, name) for name in ("push", "match", "wait", "evict", "use")
    }
    for name, tokens in steps:
        acts[name](tokens)
    before = forest.leaves()
    foretold = sorted((leaf.next, leaf.id) for leaf in before.values() if leaf.next is not None)
    given_up = list[int]()
    while forest.tree.evict():
        after = forest.leaves()
        (leaf,) = taken(before, after)
        if leaf not in given_up:
            given_up.append(leaf)
        before = after
    assert given_up == [leaf for _, leaf in foretold]


@pytest.mark.parametrize("most", [1, 7, 40])
def test_a_large_tree_is_shown_in_part(most: int) -> None:
    forest = Forest()
    for number in range(200):
        forest.wait([])
        forest.push([number % 3, number, number, number])
    picture = forest.picture()
    part = take_picture(forest.tree, "", most=most, focus=(), now=forest.now)
    check_part(part, picture, most)
