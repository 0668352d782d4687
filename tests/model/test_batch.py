"""A step's rows, sequence after sequence."""

from __future__ import annotations

import pytest

from tests.model.tiny import make_batch


@pytest.mark.parametrize(
    ("counts", "decodes"), [([1, 1, 2], 2), ([2, 1], 0), ([1, 2, 1], 1), ([1, 1], 2)], ids=lambda each: str(each)
)
def test_decodes_are_the_first_sequences_of_one_row(counts: list[int], decodes: int) -> None:
    assert make_batch([(slot, 0, [5] * count) for slot, count in enumerate(counts)]).decodes == decodes
