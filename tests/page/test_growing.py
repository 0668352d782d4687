"""An answer while it comes: what is shown at the end is what the whole text is, however it was cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from chatserve.page import growing
from chatserve.page.growing import StreamingMarkdown
from chatserve.page.markdown import Block, References, blocks_of, render
from chatserve.page.thinking import may_begin
from tests.page.test_markdown import INJECTIONS, check_harmless

PARTS = [
    *("word ", "*em* ", "**strong** ", "`code` ", "\n", "\n", "\n\n", "\r\n", "\r", "  \n", "    ", "\t"),
    *("# ", "#", "- ", "* ", "1. ", "2) ", "> ", ">", "---\n", "===\n", "***", "```", "```py\n", "~~~", "<", "&amp;"),
    *("| a | b ", "|", "--- | ---", "|-|-|\n", "- a | b\n", "[x](https://a.example)", "[l]", "\\", "]:", "é", "\x00"),
]
texts = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)
THOUGHTS = ["<think>", "</think>", "<thi", "nk>", "</thi", " ", "\n", "<"]
thoughtful = st.lists(st.sampled_from([*PARTS, *THOUGHTS, *INJECTIONS]), max_size=20).map("".join)


class Shown:
    """A page that does as it is told: it keeps the blocks before `start` and puts the new ones after them."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.thinking: str | None = None

    def look(self, answer: StreamingMarkdown) -> None:
        grown = answer.grown()
        assert grown.start <= len(self.blocks)
        self.blocks[grown.start :] = grown.blocks
        self.thinking = grown.thinking


def cut(text: str, places: Sequence[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


def shown_after(pieces: Sequence[str]) -> Shown:
    answer, shown = StreamingMarkdown(), Shown()
    for piece in pieces:
        answer.push(piece)
        shown.look(answer)
    return shown


@given(texts, st.lists(st.integers(0, 500), max_size=12))
@example("para\na | b\n--- | - x\n\nend\n\nmore\n\nand", list(range(40)))
@example("text\n#hashtag\n\na\n\nb\n\nc", list(range(20)))
@example("a\r\nb\r\n\r\nc\rd\n\n\n\ne\n\nf", list(range(20)))
@settings(max_examples=150, deadline=None)
def test_what_is_shown_is_the_text_so_far(text: str, places: list[int]) -> None:
    """No text here defines links, which an earlier block cannot know before they come, or may still begin a thought."""
    assume(not may_begin(text))
    so_far = text.removesuffix("\r")  # which may become one line end with what comes next
    assert tuple(shown_after(cut(text, places)).blocks) == render(so_far).blocks


@given(thoughtful, st.lists(st.integers(0, 500), max_size=12))
@settings(max_examples=100, deadline=None)
def test_at_the_end_it_is_what_the_whole_text_is(text: str, places: list[int]) -> None:
    answer, shown = StreamingMarkdown(), Shown()
    for piece in cut(text, places):
        answer.push(piece)
        shown.look(answer)
        check_harmless((shown.thinking or "") + "".join(shown.blocks))
    assert answer.end() == render(text)


def test_a_link_is_known_from_its_definition_on() -> None:
    definition = "[l]: https://a.example\n\n"
    text = f"[l] before\n\nand\n\nmore\n\n{definition}" + "[l] after\n\n" * 5
    shown = shown_after(list(text))
    assert [("<a " in block) for block in shown.blocks] == [False, False, False, *[True] * 5]
    answer = StreamingMarkdown()
    answer.push(text)
    assert "<a " in answer.end().blocks[0]


def test_a_definition_that_is_still_being_written_is_not_kept() -> None:
    shown = shown_after(list("a\n\nb\n\n[l]: https://a.example/long\n\n[l]\n\nc\n\nd"))
    assert 'href="https://a.example/long"' in "".join(shown.blocks)


def test_thoughts_come_first_and_their_marks_are_never_seen() -> None:
    answer, seen = StreamingMarkdown(), []
    for letter in "<think>\nhm *x*\n</think>\n\nyes":
        answer.push(letter)
        grown = answer.grown()
        seen.append((grown.thinking, grown.blocks))
        assert "think" not in (grown.thinking or "") + "".join(grown.blocks)
    assert (None, ()) in seen
    assert ("<p>hm <em>x</em></p>\n", ()) in seen
    assert seen[-1] == ("<p>hm <em>x</em></p>\n", ("<p>yes</p>\n",))


def test_what_only_looks_like_a_thought_is_shown() -> None:
    shown = shown_after(["<", "thin", "king> of"])
    assert shown.blocks == ["<p>&lt;thinking&gt; of</p>\n"]


def test_only_what_has_changed_is_told() -> None:
    answer = StreamingMarkdown()
    answer.push("one\n\ntwo\n\nthree")
    assert answer.grown().start == 0
    answer.push(" and")
    grown = answer.grown()
    assert (grown.start, grown.blocks) == (2, ("<p>three and</p>\n",))
    assert answer.grown().blocks == ()
    assert answer.grown().start == 3


@pytest.mark.parametrize("words", [1_000, 10_000])
def test_the_work_grows_with_the_answer_and_not_with_its_square(words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often somebody looks: here, every five words."""
    read = 0

    def counting(text: str, references: References) -> list[Block]:
        nonlocal read
        read += len(text)
        return blocks_of(text, references)

    monkeypatch.setattr(growing, "blocks_of", counting)
    answer = StreamingMarkdown()
    for number in range(0, words, 5):
        answer.push("word *two* three `four` five" + ("\n\n" if number % 50 == 0 else " "))
        answer.grown()
    assert read <= 25 * 6 * words
