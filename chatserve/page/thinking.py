"""The part of an answer in which a model thinks: `<think>…</think>` before everything else."""

from __future__ import annotations

from typing import Final

OPENING: Final = "<think>"
CLOSING: Final = "</think>"


def split_thinking(text: str) -> tuple[str | None, str]:
    """What an answer thinks and what it says. None: it does not think; one that has not stopped says nothing yet."""
    begun = text.lstrip()
    if not begun.startswith(OPENING):
        return None, text
    thought, _, said = begun.removeprefix(OPENING).partition(CLOSING)
    return thought, said


def may_begin(text: str) -> bool:
    """Whether so short a beginning can still become an answer that thinks."""
    return OPENING.startswith(text.lstrip())


def held_back(text: str) -> int:
    """How many characters at the end may be a part of the closing mark."""
    return next((size for size in range(len(CLOSING) - 1, 0, -1) if text.endswith(CLOSING[:size])), 0)
