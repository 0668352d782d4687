from __future__ import annotations

from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatserve.text.answer import AnswerText
from chatserve.text.tokenizer import Tokenizer


def whole_ids(ids: list[int], kept: tuple[int, tuple[int, ...]]) -> list[int]:
    count, extra = kept
    return [*ids[:count], *extra]


def test_an_answer_without_stops_keeps_every_id(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("one two three")
    answer = AnswerText(tokenizer, [], False)
    assert answer.push(ids) + answer.finish() == answer.text == "one two three"
    assert answer.kept == (len(ids), ())
    assert not answer.stopped


def test_a_stop_string_over_several_tokens_is_never_sent_in_part(tokenizer: Tokenizer) -> None:
    """A14."""
    ids = tokenizer.encode("one two three four five")
    answer, shown = AnswerText(tokenizer, ["three four"], False), ""
    for token in ids:
        shown += answer.push([token])
        assert "one two ".startswith(shown)
    assert answer.stopped
    assert shown == answer.text == "one two "
    assert tokenizer.decode(whole_ids(ids, answer.kept)) == "one two "


def test_a_stop_inside_a_token_keeps_the_part_before_it(byte_level: Tokenizer) -> None:
    """A14: the ids kept are the whole tokens before the cut, then others for the rest."""
    ids = byte_level.encode("one two three")
    assert any(byte_level.vocabulary.said(token) == b" two" for token in ids)
    answer = AnswerText(byte_level, ["wo"], False)
    answer.push(ids)
    count, extra = answer.kept
    assert answer.text == "one t"
    assert byte_level.decode(ids[:count]) == "one"
    assert byte_level.decode(extra) == " t"


def test_a_stop_may_be_included(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("one two three")
    answer = AnswerText(tokenizer, ["tw"], True)
    answer.push(ids)
    assert answer.text == "one tw"
    assert tokenizer.decode(whole_ids(ids, answer.kept)) == "one tw"


def test_a_reader_that_leaves_is_saved_what_was_shown(tokenizer: Tokenizer) -> None:
    """A13, and "what the user saw is what is saved": neither the held-back stop nor half a character."""
    ids = tokenizer.encode("one two 😀")
    answer = AnswerText(tokenizer, ["two x"], False)
    shown = answer.push(ids[:-1])
    assert tokenizer.decode(whole_ids(ids, answer.kept)) == shown == answer.text


def test_an_answer_cut_inside_a_character_keeps_its_ids(tokenizer: Tokenizer) -> None:
    """A13: at the end of max_tokens."""
    ids = tokenizer.encode("a😀")[:-1]
    answer = AnswerText(tokenizer, [], False)
    assert answer.push(ids) + answer.finish() == "a\ufffd"
    assert answer.kept == (len(ids), ())
    assert tokenizer.decode(ids) == "a\ufffd"


def test_held_back_text_is_shown_at_the_end_once(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("one tw")
    answer = AnswerText(tokenizer, ["two"], False)
    assert answer.push(ids) + answer.finish() + answer.finish() == "one tw"
    assert answer.kept == (len(ids), ())


def test_a_stop_at_the_very_beginning_keeps_nothing(tokenizer: Tokenizer) -> None:
    answer = AnswerText(tokenizer, ["one"], False)
    assert answer.push(tokenizer.encode("one two")) == ""
    assert (answer.text, answer.kept, answer.stopped) == ("", (0, ()), True)


def test_a_cut_in_an_answer_s_first_letters_keeps_its_leading_space(byte_fallback: Tokenizer) -> None:
    """A14: of two leading spaces one is the tokenizer's own, and the ids kept must bring it again."""
    ids = [*(byte_fallback.vocabulary.spell(" ") or ()), byte_fallback.encode("the")[0]]
    text = byte_fallback.decode(ids)
    assert text.startswith(" t")
    answer = AnswerText(byte_fallback, [text[2:]], False)
    answer.push(ids)
    assert answer.text == " t"
    assert byte_fallback.decode(whole_ids(ids, answer.kept)) == " t"


def test_a_completion_goes_on_with_its_own_space(byte_fallback: Tokenizer) -> None:
    ids = byte_fallback.encode("dog")
    answer = AnswerText(byte_fallback, [], False, continues=True)
    assert answer.push(ids) == " dog"


def test_concurrent_answers_do_not_share_their_state(tokenizer: Tokenizer) -> None:
    """A13."""
    texts = ["👩‍👩‍👧‍👦", "สวัสดี", "žluťoučký", "你好"]
    lists = [tokenizer.encode(text) for text in texts]
    answers = [AnswerText(tokenizer, [], False) for _ in texts]
    for step in range(max(map(len, lists))):
        for ids, answer in zip(lists, answers, strict=True):
            answer.push(ids[step : step + 1])
    assert [answer.text + answer.finish() for answer in answers] == texts


@settings(max_examples=300, deadline=None)
@given(data=st.data(), include=st.booleans(), finish=st.booleans(), continues=st.booleans())
def test_the_kept_ids_say_exactly_the_visible_text(
    tokenizer: Tokenizer, data: st.DataObject, include: bool, finish: bool, continues: bool
) -> None:
    """A12, A14: random ids, stops cut out of their own text, an end at any time."""
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30))
    text = tokenizer.decode(ids)
    spans = data.draw(st.lists(st.tuples(st.integers(0, len(text)), st.integers(1, 6)), max_size=2))
    stops = [text[at : at + length] for at, length in spans if text[at : at + length]]
    answer = AnswerText(tokenizer, stops, include, continues=continues)
    shown = "".join(answer.push([token]) for token in ids)
    shown += answer.finish() if finish else ""
    assert shown == answer.text
    said = b"".join(map(tokenizer.vocabulary.said, whole_ids(ids, answer.kept))).decode("utf-8", "replace")
    assert (said if continues else tokenizer.decode(whole_ids(ids, answer.kept))) == answer.text
    if stops and finish and not include:
        assert not any(stop in answer.text for stop in stops)


@settings(deadline=None)
@given(data=st.data())
def test_streamed_and_whole_pushes_agree(tokenizer: Tokenizer, data: st.DataObject) -> None:
    """A14."""
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=30))
    stops = data.draw(st.lists(st.text(min_size=1, max_size=3), max_size=2))
    one, many = AnswerText(tokenizer, stops, False), AnswerText(tokenizer, stops, False)
    at_once = one.push(ids) + one.finish()
    assert "".join(many.push([token]) for token in ids) + many.finish() == at_once
    assert one.kept == many.kept


def test_a_token_costs_no_more_late_in_a_long_answer(byte_level: Tokenizer) -> None:
    ids = byte_level.encode("the quick brown fox 😀 ") * 50
    answer = AnswerText(byte_level, ["the quick brown bear", "\n\nUser:"], False)
    times = []
    for _ in range(60):
        start = perf_counter()
        answer.push(ids)
        times.append(perf_counter() - start)
    assert min(times[-20:]) < 3 * min(times[:20])


@pytest.mark.model
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_demo_kept_ids_say_exactly_the_visible_text(demo: Tokenizer, data: st.DataObject) -> None:
    """A12, A14."""
    ids = data.draw(st.lists(st.integers(0, demo.vocab_size - 1), min_size=1, max_size=20))
    text = demo.decode(ids)
    at = data.draw(st.integers(0, len(text)))
    answer = AnswerText(demo, [stop for stop in [text[at : at + 3]] if stop], False)
    answer.push(ids)
    assert demo.decode(whole_ids(ids, answer.kept)) == answer.text
