"""A seed is one load: in every process, whatever else is asked of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatserve.bench.texts import BadConversations, Generated, Recorded
from chatserve.bench.workload import Held, Share, Spread, Think, Workload

spreads = st.builds(Spread, st.integers(1, 30), st.integers(0, 10))
workloads = st.builds(
    Workload,
    seed=st.integers(0, 1000),
    turns=spreads,
    system=st.integers(0, 30),
    system_shared=st.integers(0, 5),
    first=spreads,
    later=spreads,
    answer=spreads,
    think=st.builds(Think, st.floats(0, 10), st.floats(0, 2)),
    branch_rate=st.floats(0, 1),
    cancel_rate=st.floats(0, 1),
)


def held(**fields: object) -> Held:
    return Held(Workload(**fields), Generated())  # type: ignore[arg-type]


@given(workloads, st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_a_plan_keeps_to_its_workload(workload: Workload, number: int) -> None:
    plan = Held(workload, Generated()).plan(number)
    assert plan == Held(workload, Generated()).plan(number)
    for turn, each in enumerate(plan.turns):
        words = workload.later if turn else workload.first
        assert abs(len(each.message.split()) - words.mean) <= max(words.spread, 0)
        assert abs(each.answer - workload.answer.mean) <= workload.answer.spread
        assert each.cancel_after is None or 1 <= each.cancel_after <= each.answer
    assert not plan.turns[0].branch
    assert plan.turns[0].think == 0.0
    assert len((plan.system or "").split()) == workload.system


@given(workloads, st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=30, deadline=None)
def test_how_users_behave_changes_no_word(workload: Workload, branch: float, cancel: float) -> None:
    others = Workload(
        seed=workload.seed,
        turns=workload.turns,
        system=workload.system,
        system_shared=workload.system_shared,
        first=workload.first,
        later=workload.later,
        answer=workload.answer,
        branch_rate=branch,
        cancel_rate=cancel,
    )
    one, other = Held(workload, Generated()).plan(3), Held(others, Generated()).plan(3)
    assert [(turn.message, turn.answer) for turn in one.turns] == [(turn.message, turn.answer) for turn in other.turns]
    assert one.system == other.system


def test_another_process_says_the_same() -> None:
    program = (
        "from tests.bench.test_workload import held; import json; "
        "print(json.dumps([turn.message for turn in held(seed=5).plan(12).turns]))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout
    assert json.loads(said) == [turn.message for turn in held(seed=5).plan(12).turns]
    assert held(seed=5).plan(0).turns[0].message.startswith(FIRST_WORDS), "nor does another Python"


FIRST_WORDS = "begin education attention space easy "


def test_conversations_and_seeds_differ() -> None:
    said = {held(seed=seed).plan(number).turns[0].message for seed in range(3) for number in range(50)}
    assert len(said) == 150


def test_a_system_prompt_is_shared_by_as_many_as_were_asked_for() -> None:
    assert len({held(system_shared=4).plan(number).system for number in range(12)}) == 3
    assert len({held(system_shared=0).plan(number).system for number in range(12)}) == 1
    assert held(system=0).plan(0).system is None


def test_rates_and_mixes_are_about_what_was_asked_for() -> None:
    plans = [held(branch_rate=0.3, cancel_rate=0.2, priorities=(Share(0, 3), Share(9, 1))).plan(n) for n in range(400)]
    later = [turn for plan in plans for turn in plan.turns[1:]]
    every = [turn for plan in plans for turn in plan.turns]
    assert sum(turn.branch for turn in later) / len(later) == pytest.approx(0.3, abs=0.05)
    assert sum(turn.cancel_after is not None for turn in every) / len(every) == pytest.approx(0.2, abs=0.05)
    assert sum(plan.priority == 9 for plan in plans) / len(plans) == pytest.approx(0.25, abs=0.06)


def test_thinking_is_lognormal_around_its_median() -> None:
    plans = [held(think=Think(2.0, 0.5), turns=Spread(9)).plan(n) for n in range(100)]
    thought = sorted(turn.think for plan in plans for turn in plan.turns[1:])
    assert thought[len(thought) // 2] == pytest.approx(2.0, rel=0.15)
    assert thought[int(len(thought) * 0.84)] == pytest.approx(2.0 * 2.718**0.5, rel=0.2)
    assert max(thought) <= 40.0


def test_recorded_conversations_are_held_as_they_were(tmp_path: Path) -> None:
    file = tmp_path / "said.json"
    gpt = {"from": "gpt", "value": "b"}
    file.write_text(
        json.dumps(
            [
                {"id": "x", "conversations": [{"from": "human", "value": "a1"}, gpt, {"from": "human", "value": "a2"}]},
                {"messages": [{"role": "user", "content": "c1"}, {"role": "assistant", "content": "d"}]},
                {"conversations": [gpt]},
            ]
        )
    )
    load = Held(Workload(turns=Spread(5)), Recorded.read(file))
    said = [[turn.message for turn in load.plan(number).turns] for number in range(4)]
    assert sorted(said[:2]) == [["a1", "a2"], ["c1"]]
    assert said[2:] == said[:2], "from the beginning again"
    assert len(Held(Workload(turns=Spread(1)), Recorded.read(file)).plan(0).turns) == 1


@pytest.mark.parametrize("content", ["", "{}", "[1]", "[]", '[{"conversations": [{"from": "gpt", "value": "b"}]}]'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "said.json"
    file.write_text(content)
    with pytest.raises(BadConversations, match=r"said\.json"):
        Recorded.read(file)
    with pytest.raises(BadConversations, match="No such file"):
        Recorded.read(tmp_path / "none.json")
