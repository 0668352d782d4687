"""Which tokens end an answer: whatever any source of a model says."""

from __future__ import annotations

from collections.abc import Sequence

EndIds = int | Sequence[int] | None
"""How transformers writes end tokens: one id, several, or nothing."""


def union(*sources: EndIds) -> tuple[int, ...]:
    """Every id that tokenizer, config or generation settings name, ascending."""
    ids: set[int] = set()
    for source in sources:
        if source is not None:
            ids.update([source] if isinstance(source, int) else source)
    return tuple(sorted(ids))
