"""The program that looks for the server's ceiling, small: what it counts, and that both of its parts end well."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.many_readers import Counted
from loadtest.server_ceiling import streaming, turns


def event(text: str) -> bytes:
    return b'44\r\ndata: {"id":"x","choices":[{"delta":{"content":"%b"}}],"usage":null}\n\n\r\n' % text.encode()


def test_tokens_are_counted_also_where_one_event_brings_several() -> None:
    counted = Counted()
    assert counted.take(event(" one")) == 1
    assert counted.take(event(" two") + event(" three four")) == 2
    assert (counted.events, counted.tokens) == (3, 4)


@pytest.mark.model
@pytest.mark.timeout(300)
def test_every_stream_is_read_and_the_engine_s_books_balance(demo_folder: Path) -> None:
    found = streaming(str(demo_folder), streams=10, steps=20.0, seconds=1.0)
    assert found["slow_readers"] == 1
    assert found["tokens_a_second"] > 0
    assert 0 < found["events_a_token"] <= 1


@pytest.mark.model
@pytest.mark.timeout(300)
def test_a_first_token_is_timed_with_its_history_sent_again_and_kept(demo_folder: Path) -> None:
    rows = turns(str(demo_folder), count=3, histories=(80, 160))
    assert [row["mode"] for row in rows] == ["history sent again"] * 2 + ["history kept"] * 2
    assert all(row["ttft_ms_p50"] > 0 for row in rows)
    assert rows[0]["history_tokens"] + 70 < rows[1]["history_tokens"]
