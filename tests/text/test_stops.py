from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatserve.text.errors import InvalidStop
from chatserve.text.stops import StopWatch

SMALL = st.text(alphabet="ab", max_size=12)
STOPS = st.lists(st.text(alphabet="ab", min_size=1, max_size=4), max_size=4)


def run(stops: list[str], pieces: list[str], *, include: bool = False) -> tuple[list[str], bool]:
    watch = StopWatch(stops, include)
    shown = [watch.push(piece) for piece in pieces]
    return [*shown, watch.flush()], watch.stopped


def by_definition(stops: list[str], text: str, include: bool) -> str:
    """The first end of any stop; of the stops that end there, the longest."""
    for end in range(len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            return text[:end] if include else text[: end - max(map(len, ending))]
    return text


def test_a_stop_string_that_spans_pieces_is_never_sent_in_part() -> None:
    """A14: the next seven letters, one at a time."""
    shown, stopped = run(["defghij"], list("abcdefghijk"))
    assert shown == ["a", "b", "c", *[""] * 9]
    assert stopped


def test_a_stop_in_the_middle_of_a_piece_cuts_the_piece() -> None:
    """A14."""
    assert run(["STOP"], ["go on STOP now"]) == (["go on ", ""], True)


def test_a_near_miss_is_released() -> None:
    """A14."""
    assert run(["abcd"], ["xab", "c", "e"]) == (["x", "", "abce", ""], False)


def test_a_stop_that_begins_inside_a_near_miss_is_found() -> None:
    assert run(["aab"], ["a", "a", "a", "b"]) == (["", "", "a", "", ""], True)


def test_of_two_stops_the_one_that_is_complete_first_wins() -> None:
    """A14: two stops where one begins the other."""
    assert run(["abcd", "ab"], ["xabcd"]) == (["x", ""], True)


def test_of_two_stops_complete_at_one_character_the_longer_wins() -> None:
    assert run(["b", "ab"], ["xa", "b"]) == (["x", "", ""], True)


def test_a_short_stop_inside_an_unfinished_longer_one_is_found() -> None:
    assert run(["abcd", "bc"], ["xabc"]) == (["xa", ""], True)


def test_a_stop_may_be_an_emoji_with_joiners() -> None:
    """A14."""
    family = "👩‍👩‍👧‍👦"
    assert run([family], ["hi 👩‍👩", "‍👧‍👦 there"]) == (["hi ", "", ""], True)
    assert run([family], ["hi 👩‍👩", " there"]) == (["hi ", "👩‍👩 there", ""], False)


def test_on_request_the_stop_itself_is_shown() -> None:
    """A14."""
    shown, stopped = run(["END"], ["a E", "N", "D b"], include=True)
    assert ("".join(shown), stopped) == ("a END", True)


def test_what_was_held_back_is_shown_at_the_end() -> None:
    assert run(["END"], ["a EN"]) == (["a ", "EN"], False)


def test_nothing_is_shown_after_a_stop() -> None:
    watch = StopWatch(["x"], False)
    assert [watch.push("ax"), watch.push("b"), watch.flush()] == ["a", "", ""]


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(InvalidStop):
        StopWatch(["a", ""], False)


@settings(deadline=None)
@given(stops=STOPS, pieces=st.lists(SMALL, max_size=6), include=st.booleans())
def test_the_outcome_does_not_depend_on_how_the_text_is_cut(stops: list[str], pieces: list[str], include: bool) -> None:
    """A14: streamed and non-streamed text agree."""
    shown, stopped = run(stops, pieces, include=include)
    text = "".join(pieces)
    assert "".join(shown) == by_definition(stops, text, include)
    assert stopped == any(stop in text for stop in stops)


@settings(deadline=None)
@given(stops=STOPS, pieces=st.lists(SMALL, max_size=6))
def test_text_is_held_back_only_while_it_may_become_a_stop(stops: list[str], pieces: list[str]) -> None:
    watch, shown, text = StopWatch(stops, False), "", ""
    for piece in pieces:
        shown, text = shown + watch.push(piece), text + piece
        if watch.stopped:
            break
        held = text[len(shown) :]
        assert text.startswith(shown)
        assert not held or any(stop.startswith(held) for stop in stops)
