"""A streamed answer from its bytes, at times that a test chooses."""

from __future__ import annotations

import json

import pytest

from loadtest.answer_stream import AnswerStream, BadAnswer, Usage
from loadtest.chat_client import Turn

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 4}}
END = "0\r\n\r\n"


def event(value: object) -> str:
    data = f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n"
    return f"{len(data.encode()):x}\r\n{data}\r\n"


def text(content: str) -> str:
    return event({"choices": [{"delta": {"content": content}}], "usage": None})


def test_times_are_those_of_the_text() -> None:
    stream = AnswerStream()
    stream.feed(HEAD + event({"choices": [{"delta": {"role": "assistant", "content": ""}}]}).encode(), 1.0)
    for now, content in ((3.0, "a"), (3.5, "b"), (5.0, "c")):
        stream.feed(text(content).encode(), now)
    assert not stream.over
    stream.feed((event({"choices": [], "usage": USAGE}) + event("[DONE]") + END).encode(), 6.0)
    assert stream.over
    assert stream.keep_alive
    answer = stream.answer()
    assert (answer.opened, answer.first, answer.ended, answer.largest_gap) == (1.0, 3.0, 6.0, 1.5)
    assert (answer.text, answer.events, answer.usage) == ("abc", 3, Usage(9, 3, 4))
    turn = Turn.of(0, 0, 0.5, answer)
    assert (turn.ttft, turn.e2e, turn.tpot, turn.empty) == (2.5, 5.5, 1.5, False)


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_bytes_may_come_in_any_pieces(piece: int) -> None:
    whole = HEAD + (text('é "\\') + text("😀\n") + event({"usage": USAGE}) + event("[DONE]") + END).encode()
    stream = AnswerStream()
    for at in range(0, len(whole), piece):
        stream.feed(whole[at : at + piece], float(at))
    assert stream.over
    assert stream.answer().text == 'é "\\😀\n'


def test_text_about_errors_and_usage_is_text() -> None:
    said = '"error": 1, "usage": {"content":"x"}'
    stream = AnswerStream()
    stream.feed(HEAD + (text(said) + event({"usage": USAGE}) + event("[DONE]") + END).encode(), 1.0)
    assert stream.answer().text == said


def test_an_answer_without_text_is_known_by_its_missing_first() -> None:
    stream = AnswerStream()
    stream.feed(HEAD + (text("") + event({"usage": USAGE}) + event("[DONE]") + END).encode(), 2.0)
    assert stream.answer().first is None
    assert Turn.of(0, 0, 0.5, stream.answer()).empty


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (text("a") + event("[DONE]") + END, "no usage"),
        (text("a") + event({"usage": USAGE}) + END, r"without \[DONE\]"),
        (text("a") + event({"error": {"message": "no"}}) + event({"usage": USAGE}) + event("[DONE]") + END, "error"),
        (text("a"), "closed inside"),
    ],
)
def test_what_is_not_a_whole_answer_is_none(body: str, told: str) -> None:
    stream = AnswerStream()
    stream.feed(HEAD + body.encode(), 1.0)
    stream.closed()
    with pytest.raises(BadAnswer, match=told):
        stream.answer()
