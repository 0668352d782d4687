"""A regular expression for any of many words that looks at each character once, however many words there are."""

from __future__ import annotations

import re
from collections.abc import Iterable

Node = dict[str, "Node"]
END = ""


def any_of(words: Iterable[str]) -> str:
    """A pattern of the longest of the words at a place; "" for no words."""
    root: Node = {}
    for word in words:
        node = root
        for character in word:
            node = node.setdefault(character, {})
        node[END] = {}
    return _pattern(root) if root else ""


def _pattern(node: Node) -> str:
    run = ""
    while len(node) == 1 and END not in node:
        ((character, node),) = node.items()
        run += re.escape(character)
    branches = [re.escape(character) + _pattern(after) for character, after in node.items() if character != END]
    if not branches:
        return run
    return f"{run}(?:{'|'.join(branches)}){'?' if END in node else ''}"
