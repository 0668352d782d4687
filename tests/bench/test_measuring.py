"""A streamed answer from the bytes of its body, at times that a test chooses."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatserve.bench.dialects import BadAnswer, Chat, Responses
from chatserve.bench.measuring import Asked, Reading, check_status
from chatserve.bench.outcome import CUT, ERROR_EVENT, LENGTH, NO_END, NO_USAGE, NONSENSE, Failure, Usage
from tests.bench.bodies import DONE, RESPONSE_USAGE, event, response_of, response_text, role, text, usage

ASKED = Asked(conversation=7, turn=1, due=0.25, exact=3)
WHOLE = role() + text('é "\\') + text("😀\n") + text("c") + usage() + DONE


def read(*pieces: tuple[float, bytes], dialect: type[Chat] | type[Responses] = Chat) -> Reading:
    reading = Reading(dialect())
    for now, piece in pieces:
        reading.feed(piece, now)
    return reading


def test_times_are_those_of_the_text() -> None:
    """Headers came long ago, and an event with a role only: neither is a token."""
    reading = read((1.0, role()), (3.0, text("a")), (3.5, text("b")), (5.0, text("c")))
    assert not reading.over
    reading.feed(usage(), 5.5)
    reading.feed(DONE, 6.0)
    reading.check()
    turn = reading.outcome(ASKED, 0.5, 9.0)
    assert (turn.begin, turn.opened, turn.first, turn.ended) == (0.5, 1.0, 3.0, 6.0)
    assert (turn.ttft, turn.e2e, turn.tpot, turn.gaps, turn.events) == (2.5, 5.5, 1.5, (0.5, 1.5), 3)
    assert (turn.usage, turn.whole, turn.late) == (Usage(40, 3, 30), True, 0.25)


def test_in_an_open_loop_times_count_from_when_the_turn_was_due() -> None:
    reading = read((3.0, text("a") + text("b") + text("c") + usage() + DONE))
    turn = reading.outcome(Asked(0, 0, due=0.25, open_loop=True), 2.0, 9.0)
    assert (turn.ttft, turn.late) == (2.75, 1.75)


def test_responses_are_measured_in_the_same_way() -> None:
    reading = read(
        (1.0, response_of("created") + response_of("in_progress")),
        (3.0, response_text("a")),
        (3.5, response_text("b")),
        (5.0, response_text("c")),
        (6.0, response_of("incomplete", usage=RESPONSE_USAGE)),
        dialect=Responses,
    )
    reading.check()
    turn = reading.outcome(ASKED, 0.5, 9.0)
    assert (turn.opened, turn.ttft, turn.e2e, turn.gaps, turn.usage) == (1.0, 2.5, 5.5, (0.5, 1.5), Usage(40, 3, 30))
    assert (reading.text, reading.response_id) == ("abc", "resp_1")


@given(st.lists(st.integers(1, len(WHOLE)), max_size=30), st.booleans())
@settings(max_examples=50, deadline=None)
def test_bytes_may_come_in_any_pieces_and_with_either_line_end(cuts: list[int], windows: bool) -> None:
    body = WHOLE.replace(b"\n\n", b"\r\n\r\n") if windows else WHOLE
    edges = [0, *sorted(cuts), len(body)]
    reading = read(*((float(at), body[at:to]) for at, to in pairwise(edges)))
    reading.check()
    assert reading.text == 'é "\\😀\nc'


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_text(field: str) -> None:
    assert read((1.0, event({"choices": [{"delta": {field: "hm"}}]}))).events == 1


def test_text_about_errors_and_usage_is_text() -> None:
    said = '"error": 1, "usage": {"content":"x"} data: [DONE]'
    reading = read((1.0, text(said) + usage() + DONE))
    reading.check()
    assert reading.text == said


def test_comments_and_other_lines_are_dropped() -> None:
    reading = read((1.0, b": ping\n\n" + b"id: 4\nretry: 5\n\n" + b"id: 1\n" + text("a") + usage() + DONE))
    assert (reading.text, reading.over) == ("a", True)


def test_a_whole_answer_without_text_has_no_ttft() -> None:
    turn = read((2.0, role() + usage() + DONE)).outcome(ASKED, 0.5, 9.0)
    assert (turn.whole, turn.first, turn.ttft, turn.tpot, turn.e2e) == (True, None, None, None, 1.5)


def test_one_token_has_no_time_per_token() -> None:
    assert read((2.0, text("a") + usage(completion_tokens=1) + DONE)).outcome(Asked(0, 0, 0.0), 0.5, 9.0).tpot is None


def test_a_server_may_hide_what_it_cached() -> None:
    turn = read((2.0, text("a") + usage(prompt_tokens_details=None) + DONE)).outcome(Asked(0, 0, 0.0), 0.5, 9.0)
    assert turn.usage == Usage(40, 3, None)


@pytest.mark.parametrize(
    ("body", "whole", "kind"),
    [
        (text("a") + DONE, True, NO_USAGE),
        (text("a") + usage(), True, NO_END),
        (text("a"), False, CUT),
        (text("a") + text("b")[:20], False, CUT),
        (b"", True, NO_END),
        (text("a") + event({"error": {"message": "the engine died"}}), True, ERROR_EVENT),
        (event({"object": "error", "message": "no"}), True, ERROR_EVENT),
        (event({"message": "no"}, "error"), True, ERROR_EVENT),
        (b"data: <html>\n\n", True, NONSENSE),
        (b"data: [1]\n\n", True, NONSENSE),
        (event({"choices": [], "usage": {"prompt_tokens": 3}}), True, NONSENSE),
    ],
)
def test_what_is_not_a_whole_chat_answer_is_none(body: bytes, whole: bool, kind: str) -> None:
    reading = Reading(Chat())
    with pytest.raises(BadAnswer) as bad:
        _feed_all(reading, body, whole)
    assert bad.value.kind == kind


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (response_text("a") + response_of("failed", error={"message": "no"}), ERROR_EVENT),
        (event({"type": "error", "message": "no"}, "error"), ERROR_EVENT),
        (response_text("a"), NO_END),
        (response_text("a") + DONE, NO_END),
        (response_text("a") + response_of("completed"), NO_USAGE),
        (b"data: {\n\n", NONSENSE),
    ],
)
def test_what_is_not_a_whole_response_is_none(body: bytes, kind: str) -> None:
    with pytest.raises(BadAnswer) as bad:
        _feed_all(Reading(Responses()), body, True)
    assert bad.value.kind == kind


def _feed_all(reading: Reading, body: bytes, whole: bool) -> None:
    reading.feed(body, 1.0)
    reading.close(2.0, whole=whole)


def test_a_last_event_needs_no_empty_line() -> None:
    reading = read((1.0, text("a") + usage() + b"data: [DONE]"))
    reading.close(2.0, whole=True)
    assert reading.over


def test_a_fixed_length_is_held_or_the_turn_has_failed() -> None:
    turn = read((1.0, text("a") + usage(completion_tokens=2) + DONE)).outcome(ASKED, 0.5, 9.0)
    assert turn.failure == Failure(LENGTH, "2 tokens came instead of 3")
    assert not turn.whole


def test_a_cancelled_turn_is_neither_whole_nor_a_failure() -> None:
    turn = read((1.0, text("a"))).outcome(ASKED, 0.5, 9.0, cancelled=True)
    assert (turn.whole, turn.failure, turn.ended) == (False, None, 9.0)


def test_what_a_server_says_with_another_status_is_told() -> None:
    check_status(200, b"")
    with pytest.raises(BadAnswer, match="slow down") as bad:
        check_status(429, b"slow down")
    assert bad.value.kind == "status 429"
    with pytest.raises(BadAnswer) as bad:
        check_status(503, b"x" * 1000)
    assert len(str(bad.value)) < 400
