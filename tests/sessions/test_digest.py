"""The hash chain: equal for equal messages only, whatever their fields contain."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.digest import DigestChain
from sessions.turns import Message

CHAIN = DigestChain()
SHORT = st.text("ab\0\1", max_size=3)
MESSAGES = st.lists(st.builds(Message, SHORT, SHORT, st.none() | SHORT), max_size=3)


@given(SHORT, MESSAGES, SHORT, MESSAGES)
def test_no_field_can_imitate_another(
    tenant: str, messages: list[Message], other_tenant: str, other: list[Message]
) -> None:
    """A02"""
    same = CHAIN.extend(CHAIN.root(tenant), messages) == CHAIN.extend(CHAIN.root(other_tenant), other)
    assert same == ((tenant, messages) == (other_tenant, other))


@given(MESSAGES, MESSAGES)
def test_a_chain_extended_in_two_steps_is_the_chain_of_both(first: list[Message], second: list[Message]) -> None:
    root = CHAIN.root("t")
    assert CHAIN.extend(CHAIN.extend(root, first), second) == CHAIN.extend(root, [*first, *second])


def test_an_absent_name_differs_from_an_empty_one() -> None:
    root = CHAIN.root("t")
    assert CHAIN.extend(root, [Message("user", "x")]) != CHAIN.extend(root, [Message("user", "x", "")])


def test_prefixes_end_in_answers_are_proper_and_come_longest_first() -> None:
    ask, answer = Message("user", "q"), Message("assistant", "a")
    root = CHAIN.root("t")
    one, two = CHAIN.extend(root, [ask, answer]), CHAIN.extend(root, [ask, answer, ask, answer])
    assert CHAIN.prefixes("t", [ask, answer, ask, answer, ask]) == [two, one]
    assert CHAIN.prefixes("t", [ask, answer, ask, answer]) == [one]
    assert CHAIN.prefixes("t", []) == []


def test_text_that_is_not_valid_unicode_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        CHAIN.extend(CHAIN.root("t"), [Message("user", "\ud83d")])
