"""The soak, short and with a model that computes nothing: hundreds of turns, branches and readers who leave."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from loadtest.soak import engine_without, soak


@pytest.mark.model
@pytest.mark.timeout(300)
def test_nothing_fails_and_the_books_balance_when_all_have_left(demo_folder: Path) -> None:
    model = str(demo_folder)
    found = soak(model, partial(engine_without, model), minutes=0.1, seed=3)
    assert found["failures"] == {}
    assert found["audit"] == ""
    assert found["idle_afterwards"]
    assert min(found["turns"], found["left_by_their_readers"], found["branches"]) > 0
    assert found["engine"]["evicted_chunks"] > 0, "memory was short all the while"
