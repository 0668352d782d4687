"""Any JSON of figures as HTML: objects as tables of names and values, rows of like objects as one table, curves drawn.

An object of the shape {"title", "x", "y", "lines": [{"label", "points": [[x, y], ...]}]} is drawn, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import Any, Final

import msgspec

from chatserve.bench.curves import Figure
from chatserve.bench.svg import drawn
from chatserve.bench.values import shown

DEEPEST: Final = 6
"""Of HTML's headings."""


def any_figures(value: Any, level: int = 3) -> Iterator[str]:
    """level: of the headings inside."""
    match value:
        case {"title": _, "lines": _}:
            yield _drawn(value)
        case dict():
            plain = {name: each for name, each in value.items() if not _nested(each)}
            if plain:
                yield html_table(["", ""], [[_words(name), shown(each)] for name, each in plain.items()])
            nested = {name: each for name, each in value.items() if _nested(each)}
            for alike, columns in _alike(nested):
                if len(alike) > 1:
                    rows = [[_words(name), *(shown(nested[name][column]) for column in columns)] for name in alike]
                    yield html_table(["", *columns], rows)
                    continue
                yield f"<h{level}>{escape(_words(alike[0]))}</h{level}>"
                yield from any_figures(nested[alike[0]], min(level + 1, DEEPEST))
        case [dict(), *_] if all(isinstance(each, dict) and not _has_nested(each) for each in value):
            names = list(dict.fromkeys(name for each in value for name in each))
            yield html_table(names, [[shown(each.get(name)) for name in names] for each in value])
        case list():
            for each in value:
                yield from any_figures(each, level)
        case _:
            yield f"<p>{escape(shown(value))}</p>"


def html_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells that are no figures stand to the left."""
    head = "".join(f"<th>{escape(_words(name))}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if any(columns) else ""
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


def _alike(nested: Mapping[str, Any]) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    """Names of neighbours that hold the same figures, and what these are called; anything else is alone."""
    for columns, names in groupby(nested, lambda name: _columns(nested[name])):
        if columns:
            yield list(names), columns
        else:
            yield from (([name], ()) for name in names)


def _columns(value: Any) -> tuple[str, ...]:
    """Of an object that would make a row; none of any other."""
    return tuple(value) if isinstance(value, dict) and not _has_nested(value) else ()


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(text: str) -> str:
    words = ' class="words"' if not any(letter.isdigit() for letter in text[:2]) else ""
    return f"<td{words}>{escape(text)}</td>"


def _nested(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(each, dict) for each in value))


def _has_nested(row: Mapping[str, Any]) -> bool:
    return any(map(_nested, row.values()))


def _drawn(value: Any) -> str:
    try:
        figure = msgspec.convert(value, type=Figure)
    except msgspec.ValidationError as error:
        return f'<p class="note">a figure that cannot be drawn: {escape(str(error))}</p>'
    return f"<figure><figcaption>{escape(figure.title)}</figcaption>{drawn(figure)}</figure>"
