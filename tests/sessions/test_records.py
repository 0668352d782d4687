"""What is stored comes back as it was, from a row and from a record; what is not one is refused."""

from __future__ import annotations

import sqlite3
from array import array

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions.redis_records import conversation_from_fields, turn_from_record, turn_to_record
from sessions.rows import turn_from_row, turn_to_row
from sessions.store import BadRecord
from sessions.turns import Message, Turn

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=5).map(lambda ids: array("i", ids))
TEXT = st.text(max_size=9)
MESSAGES = st.lists(st.builds(Message, TEXT, TEXT, st.none() | TEXT), max_size=3).map(tuple)
TURNS = st.builds(
    Turn,
    id=st.just("x"),
    conversation=st.just("c"),
    parent=st.none() | st.just("w"),
    digest=st.binary(max_size=9),
    messages=MESSAGES,
    answer=st.none() | TEXT,
    prompt_ids=IDS,
    output_ids=IDS,
    restarts=st.booleans(),
    status=st.sampled_from(["completed", "length", "cancelled", "failed"]),
    created=st.floats(0, 1e10),
    instructions=st.none() | TEXT,
    detail=st.binary(max_size=9),
)


@given(TURNS)
def test_a_turn_comes_back_from_its_row_as_it_was(before: Turn) -> None:
    row = turn_to_row(before)
    with sqlite3.connect(":memory:") as connection:
        assert turn_from_row(connection.execute(f"SELECT {', '.join('?' * len(row))}", row).fetchone()) == before


@given(TURNS)
def test_a_turn_comes_back_from_its_record_as_it_was(before: Turn) -> None:
    assert turn_from_record(turn_to_record(before)) == before


def test_token_ids_take_four_bytes_each() -> None:
    base = Turn(
        id="x",
        conversation="c",
        parent=None,
        digest=b"",
        messages=(),
        answer=None,
        prompt_ids=array("i"),
        output_ids=array("i"),
        restarts=False,
        status="completed",
        created=0.0,
    )
    thousand = msgspec.structs.replace(base, prompt_ids=array("i", [7] * 1000))
    assert 4000 <= len(turn_to_record(thousand)) - len(turn_to_record(base)) <= 4002


@pytest.mark.parametrize("data", [b"", b"\x01", b"\x93\x01\x02\x03"])
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(BadRecord):
        turn_from_record(data)


def test_what_is_no_conversation_is_refused() -> None:
    assert conversation_from_fields([]) is None
    for fields in ([b"id", b"c"], [b"id"], [b"id", b"\xff"]):
        with pytest.raises(BadRecord):
            conversation_from_fields(fields)
