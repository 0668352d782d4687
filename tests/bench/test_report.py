"""Records, what is said of them, and the page that shows them."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatserve.bench.bench import order
from chatserve.bench.crew import Performance
from chatserve.bench.curves import Figure, Line, distribution, figures
from chatserve.bench.definitions import DEFINITIONS
from chatserve.bench.lines import remarks, tables
from chatserve.bench.load import Closed, Limits
from chatserve.bench.outcome import CUT, Failure, Outcome
from chatserve.bench.page import NoFigures, Section, page
from chatserve.bench.process import Cost
from chatserve.bench.record import Record, Server, Terms, record, run_record
from chatserve.bench.slo import Slo
from chatserve.bench.svg import drawn
from chatserve.bench.workload import Workload
from tests.bench.test_statistics import turn

EVIL = "<script>alert('x')</script>&\"'"


def performance(ttft: float, failure: Failure | None = None) -> Performance:
    """Ten conversations of three turns, a little different each."""
    turns = [
        turn(number, each, begin=100.0 + number + each / 4, ttft=ttft * (1 + number / 100))
        for number in range(10)
        for each in range(3)
    ]
    failed = [turn(10, 0, begin=105.0, failure=failure)] if failure else []
    return Performance(begin=100.0, outcomes=turns + failed, costs=[Cost(cpu=1.0, wall=10.0, lag=0.001)])


def kept(*performances: Performance, rounds: int = 1) -> Record:
    terms = Terms(
        workload=Workload(),
        texts="generated",
        load=Closed(10),
        limits=Limits(10),
        slo=Slo(ttft=0.6),
        fixed_length=True,
        processes=1,
    )
    servers = [Server(f"http://{name}", f"m {EVIL}", "chat") for name in ("one", "two")[: len(performances)]]
    runs = [
        run_record(performances[server], terms.slo, server=server, round_=round_, seed=1 + round_)
        for round_, server in order(len(performances), rounds)
    ]
    return record("2026-01-01T00:00:00+00:00", terms, servers, runs)


def test_a_record_can_be_read_again_as_it_was_written() -> None:
    written = kept(performance(0.5), performance(0.25), rounds=2)
    read = msgspec.json.decode(msgspec.json.encode(written), type=Record)
    assert msgspec.json.encode(read) == msgspec.json.encode(written)
    assert read.definitions == DEFINITIONS
    assert read.runs[0].turns[0].begin == 0.0, "moments are those of the run"
    assert isinstance(read.runs[0].turns[0], Outcome)


def test_servers_are_measured_in_turn() -> None:
    assert list(order(2, 3)) == [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1)]
    assert list(order(1, 2)) == [(0, 0), (1, 0)]


def test_a_comparison_says_how_sure_it_is() -> None:
    found = kept(performance(0.5), performance(0.25), rounds=2)
    assert found.ratios is not None
    ratio = found.ratios["ttft_later"]
    assert ratio.ratio == pytest.approx(0.5)
    assert ratio.low <= ratio.ratio <= ratio.high
    assert ratio.sure
    assert not found.ratios["tpot"].sure, "these are alike"
    (shown,) = [table for table in tables(found) if table.title == "B against A"]
    assert [row[-1] for row in shown.rows if row[0].startswith("TPOT")] == ["not told apart"]
    assert kept(performance(0.5)).ratios is None


def test_two_rounds_take_as_long_as_both() -> None:
    one, two = kept(performance(0.5)), kept(performance(0.5), rounds=2)
    assert two.summaries[0].turns == 2 * one.summaries[0].turns
    assert two.summaries[0].wall == pytest.approx(2 * one.summaries[0].wall)
    assert two.summaries[0].turns_rate == pytest.approx(one.summaries[0].turns_rate)
    assert two.summaries[0].steady_output_rate == pytest.approx(one.summaries[0].steady_output_rate)


def test_what_a_reader_must_know_is_said() -> None:
    found = kept(performance(0.5, Failure(CUT, "gone")))
    late = Performance(begin=0.0, outcomes=[turn()], costs=[Cost(9.0, 10.0, 0.05)], interrupted=True)
    assert any("p99" in remark for remark in remarks(found))
    told = " ".join(remarks(kept(late)))
    assert "stopped early" in told
    assert "the client itself was late: its events waited up to 50 ms" in told
    hopeless = Performance(begin=0.0, outcomes=[turn()], hopeless=Failure("status 503", "not now"))
    assert "given up, for every turn failed: status 503: not now" in " ".join(remarks(kept(hopeless)))


def test_a_server_that_is_compared_with_itself_is_told_of() -> None:
    found = kept(performance(0.5), performance(0.5))
    assert not any("cache_salt" in remark for remark in remarks(found))
    same = msgspec.structs.replace(found, servers=[found.servers[0]] * 2)
    assert any("cache_salt" in remark for remark in remarks(same))


def test_failures_are_shown_by_kind_with_an_example() -> None:
    (shown,) = [table for table in tables(kept(performance(0.5, Failure(CUT, EVIL)))) if "failures" in table.title]
    assert shown.rows == [[CUT, "1", EVIL]]


class _Reader(HTMLParser):
    """Every tag must be closed, and none may refer to anything outside."""

    VOID = ("meta", "br")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert name not in ("src", "srcset", "xlink:href")
            assert not name.startswith("on")
            assert name != "href" or (value or "").startswith("#")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(text: str) -> _Reader:
    reader = _Reader()
    reader.feed(text)
    assert not reader.open
    assert not {"script", "link", "img", "iframe", "object", "embed", "base", "form"} & reader.seen
    assert not re.search(r"url\(|@import", text)
    return reader


def test_a_page_is_whole_escaped_and_refers_to_nothing_outside(tmp_path: Path) -> None:
    file = tmp_path / f"{EVIL.replace('/', '_')}.json"
    file.write_bytes(msgspec.json.encode(kept(performance(0.5, Failure(CUT, EVIL)), performance(0.25), rounds=2)))
    words = "".join(read(page([Section.read(file)])).words)
    assert EVIL in words, "it is shown as it is"
    assert "B against A" in words
    assert all(meaning in words for meaning in DEFINITIONS.values())


def test_any_figures_become_tables_and_curves(tmp_path: Path) -> None:
    curve = {"title": f"t {EVIL}", "x": EVIL, "y": EVIL, "lines": [{"label": EVIL, "points": [[0, 1], [2, 3]]}]}
    file = tmp_path / "some.json"
    rows = [{"streams": 1, "tok/s": 5123.4}, {"streams": 8, EVIL: None}]
    file.write_text(
        json.dumps({"machine": {"cpus": 2, EVIL: EVIL}, "rows": rows, "figures": [curve], "list": [1, 2.5]})
    )
    reader = read(page([Section.read(file)]))
    words = "".join(reader.words)
    assert {"table", "svg", "polyline"} <= reader.seen
    assert "5,123" in words
    assert "1 / 2.5" in words


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
@settings(max_examples=50, deadline=None)
def test_no_json_breaks_the_page(value: object) -> None:
    read(page([Section("x", json.loads(json.dumps(value)))]))


@pytest.mark.parametrize("content", [b"", b"{", b'{"kind": "chatserve bench"}'])
def test_what_holds_no_figures_is_told(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.json"
    file.write_bytes(content)
    with pytest.raises(NoFigures, match=r"x\.json"):
        Section.read(file)
    with pytest.raises(NoFigures, match="No such file"):
        Section.read(tmp_path / "none.json")


@given(st.lists(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), max_size=5), max_size=9))
@settings(max_examples=50, deadline=None)
def test_any_points_can_be_drawn(lines: list[list[tuple[float, float]]]) -> None:
    read(drawn(Figure("t", "x", "y", [Line(str(place), points) for place, points in enumerate(lines)])))


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=400))
@settings(max_examples=50, deadline=None)
def test_a_distribution_rises_from_the_least_to_the_most(values: list[float]) -> None:
    points = distribution(sorted(values))
    assert points[0] == (min(values), 0.0)
    assert points[-1] == (max(values), 100.0)
    assert all(before[1] < after[1] and before[0] <= after[0] for before, after in zip(points, points[1:]))  # noqa: B905, RUF007


def test_a_record_is_drawn_as_distributions_and_over_time() -> None:
    found = list(figures(kept(performance(0.5), performance(0.25))))
    assert [figure.title.partition(":")[0] for figure in found] == [
        "TTFT",
        "ITL",
        "TPOT",
        "E2E",
        "Output over time",
        "Turns running",
        "TTFT over time",
    ]
    assert all(len(figure.lines) >= 2 for figure in found)


def test_nothing_measured_is_a_record_too() -> None:
    empty = kept(Performance(), Performance())
    assert list(figures(empty)) == []
    assert empty.ratios == {}
    read(page([Section("x", empty)]))


def test_neighbours_that_hold_the_same_figures_are_one_table() -> None:
    shown = page([Section("x", {"ttft_ms": {"p50": 1, "p99": 2}, "tpot_ms": {"p50": 3, "p99": 4}, "other": {"a": 5}})])
    assert shown.count("<table>") == 2
    assert '<td class="words">ttft ms</td><td>1</td><td>2</td>' in shown
