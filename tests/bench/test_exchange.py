"""HTTP responses, however a server frames them."""

from __future__ import annotations

import pytest

from chatserve.bench.dialects import BadAnswer, Chat
from chatserve.bench.exchange import Exchange
from chatserve.bench.measuring import Reading
from chatserve.bench.outcome import CUT, NONSENSE
from tests.bench.bodies import DONE, text, usage

BODY = text("a") + text("b") + text("c") + usage() + DONE
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
UNTIL_CLOSED = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def exchange(leave_after: int | None = None) -> tuple[Exchange, Reading]:
    reading = Reading(Chat())
    return Exchange(reading, leave_after), reading


@pytest.mark.parametrize("piece", [1, 3, 10_000])
def test_a_chunked_body_ends_with_its_last_chunk(piece: int) -> None:
    found, reading = exchange()
    whole = CHUNKED + chunk(BODY[:50]) + chunk(BODY[50:]) + b"0\r\n\r\n"
    for at in range(0, len(whole), piece):
        assert not found.settled
        found.feed(whole[at : at + piece], float(at))
    assert found.settled
    assert found.reusable
    found.check()
    assert reading.text == "abc"


def test_a_body_of_a_known_length_ends_with_its_last_byte() -> None:
    found, _ = exchange()
    found.feed(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY, 1.0)
    assert (found.settled, found.reusable) == (True, True)
    found.check()


def test_a_body_without_a_length_ends_with_its_connection() -> None:
    found, _ = exchange()
    found.feed(UNTIL_CLOSED + BODY, 1.0)
    assert found.over
    assert not found.settled
    found.closed(2.0)
    assert (found.settled, found.reusable) == (True, False)
    found.check()


@pytest.mark.parametrize(
    "received",
    [
        b"",
        b"HTTP/1.1 20",
        CHUNKED,
        CHUNKED + chunk(text("a")),
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + text("a"),
        b"HTTP/1.1 503 Full\r\nContent-Length: 900\r\n\r\nwait",
    ],
)
def test_a_connection_that_ends_inside_an_answer_cut_it_off(received: bytes) -> None:
    found, _ = exchange()
    found.feed(received, 1.0)
    found.closed(2.0)
    with pytest.raises(BadAnswer) as bad:
        found.check()
    assert bad.value.kind == CUT


def test_an_end_after_the_end_mark_cuts_nothing_off() -> None:
    found, _ = exchange()
    found.feed(CHUNKED + chunk(BODY), 1.0)
    found.closed(2.0)
    found.check()


def test_a_reader_who_leaves_takes_nothing_more() -> None:
    found, reading = exchange(leave_after=2)
    found.feed(CHUNKED + chunk(text("a") + text("b")) + chunk(text("c")), 1.0)
    assert (found.settled, found.left, found.reusable) == (True, True, False)
    found.check()
    assert reading.text == "ab"


def test_an_answer_that_ended_cannot_be_left_any_more() -> None:
    found, _ = exchange(leave_after=3)
    found.feed(CHUNKED + chunk(BODY) + b"0\r\n\r\n", 1.0)
    assert not found.left


def test_noise_is_no_response() -> None:
    found, _ = exchange()
    found.feed(b"220 mail ready\r\n", 1.0)
    with pytest.raises(BadAnswer) as bad:
        found.check()
    assert bad.value.kind == NONSENSE


def test_a_server_that_closes_is_not_asked_again_on_that_connection() -> None:
    found, _ = exchange()
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY)
    found.feed(head + BODY, 1.0)
    assert (found.settled, found.reusable) == (True, False)
