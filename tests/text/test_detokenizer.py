from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chatserve.text.detokenizer import Detokenizer
from chatserve.text.tokenizer import Tokenizer

TEXTS = [
    "👩‍👩‍👧‍👦 family",
    "🇨🇿🇯🇵 flags",
    "Příliš žluťoučký kůň",
    "สวัสดีชาวโลก",
    "你好，世界",
    "plain words, and\n\n  white space ",
    "e\u0301 in two code points",
]


def deltas(tokenizer: Tokenizer, ids: Iterable[int]) -> list[str]:
    detokenizer = Detokenizer(tokenizer.vocabulary, tokenizer.vocabulary.lead)
    return [*map(detokenizer.push, ids), detokenizer.flush()]


@pytest.mark.parametrize("text", TEXTS)
def test_characters_come_whole_whatever_the_tokens_are(tokenizer: Tokenizer, text: str) -> None:
    """A13."""
    found = deltas(tokenizer, tokenizer.encode(text))
    assert "".join(found) == text
    assert "\ufffd" not in "".join(found)


def test_an_answer_that_ends_inside_a_character_gets_one_replacement_mark_at_the_end(tokenizer: Tokenizer) -> None:
    """A13: max_tokens cuts an emoji."""
    ids = tokenizer.encode("a😀")
    *before, last = deltas(tokenizer, ids[:-1])
    assert ("".join(before), last) == ("a", "\ufffd")


def test_flushing_a_whole_text_adds_nothing(tokenizer: Tokenizer) -> None:
    assert deltas(tokenizer, tokenizer.encode("whole"))[-1] == ""


def test_control_tokens_say_nothing(byte_level: Tokenizer) -> None:
    ids = [1, *byte_level.encode("hi"), 2, 0]
    assert "".join(deltas(byte_level, ids)) == "hi"


def test_thinking_marks_that_the_model_writes_are_shown(byte_level: Tokenizer) -> None:
    mark = byte_level.encoder.controls["<think>"]
    assert "".join(deltas(byte_level, [mark, *byte_level.encode("hm")])) == "<think>hm"


def test_an_id_outside_the_vocabulary_says_nothing(tokenizer: Tokenizer) -> None:
    """A model's output may have more rows than its tokenizer has tokens."""
    ids = tokenizer.encode("hi")
    assert "".join(deltas(tokenizer, [*ids, tokenizer.vocab_size, 10**9, -1])) == "hi"


def test_the_tokenizers_own_leading_space_is_not_said_but_the_models_are(byte_fallback: Tokenizer) -> None:
    ids = byte_fallback.encode("the dog")
    assert byte_fallback.vocabulary.said(ids[0]).startswith(b" ")
    assert "".join(deltas(byte_fallback, ids)) == "the dog"
    assert "".join(deltas(byte_fallback, byte_fallback.encode("  the dog"))) == "  the dog"
    going_on = Detokenizer(byte_fallback.vocabulary, 0)
    assert "".join(map(going_on.push, ids)) == " the dog"


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_joined_deltas_equal_decoding_everything_at_once(tokenizer: Tokenizer, data: st.DataObject) -> None:
    """A13: random ids of the whole vocabulary, most of which make no characters at all."""
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size), max_size=40))
    assert "".join(deltas(tokenizer, ids)) == tokenizer.decode(ids)


@settings(deadline=None)
@given(data=st.data())
def test_nothing_is_kept_back_but_the_part_of_one_character(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = tokenizer.encode(data.draw(st.text(max_size=20)))
    detokenizer, shown = Detokenizer(tokenizer.vocabulary, tokenizer.vocabulary.lead), ""
    for count, token in enumerate(ids, start=1):
        shown += detokenizer.push(token)
        assert detokenizer.emitted == len(shown)
        unfinished = tokenizer.decode(ids[:count]).removeprefix(shown)
        assert unfinished == ("\ufffd" if detokenizer.pending else "")


@pytest.mark.model
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_demo_joined_deltas_equal_decoding_everything_at_once(demo: Tokenizer, data: st.DataObject) -> None:
    """A13."""
    ids = data.draw(st.lists(st.integers(0, demo.vocab_size - 1), max_size=40))
    assert "".join(deltas(demo, ids)) == demo.decode(ids)


@pytest.mark.model
@pytest.mark.parametrize("text", TEXTS)
def test_demo_characters_come_whole(demo: Tokenizer, text: str) -> None:
    """A13."""
    assert "".join(deltas(demo, demo.encode(text))) == text
