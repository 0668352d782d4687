"""Texts rendered once: a conversation is read again and again, and its turns never change."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final, Generic, TypeVar

from chatserve.page.markdown import Rendered, render, render_text

T = TypeVar("T")

MOST_CHARACTERS: Final = 16_000_000
"""Of text and HTML, all that is kept together."""


class Renderings:
    """The renderer, with a memory of what was rendered last. Any thread may call it."""

    def __init__(self, most_characters: int = MOST_CHARACTERS) -> None:
        self._answers = _Kept(render, _size, most_characters // 2)
        self._messages = _Kept(render_text, len, most_characters // 2)

    def answer(self, text: str) -> Rendered:
        return self._answers.of(text)

    def message(self, text: str) -> str:
        return self._messages.of(text)


class _Kept(Generic[T]):
    """Results of a function of a text; those asked for last, up to a size."""

    def __init__(self, make: Callable[[str], T], size: Callable[[T], int], most: int) -> None:
        self._make = make
        self._size = size
        self._most = most
        self._held = 0
        self._made: OrderedDict[str, T] = OrderedDict()
        self._lock = Lock()

    def of(self, text: str) -> T:
        with self._lock:
            made = self._made.get(text)
            if made is not None:
                self._made.move_to_end(text)
                return made
        made = self._make(text)  # two threads may both do it
        with self._lock:
            if text not in self._made:
                self._made[text] = made
                self._held += len(text) + self._size(made)
            while self._held > self._most:
                dropped, result = self._made.popitem(last=False)
                self._held -= len(dropped) + self._size(result)
        return made


def _size(rendered: Rendered) -> int:
    return len(rendered.thinking or "") + sum(map(len, rendered.blocks))
