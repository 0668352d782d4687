"""One page that shows what was measured: no script, nothing fetched from anywhere, every text escaped.

It reads what `chatserve bench` writes, and any other JSON of figures (tree.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

import msgspec

from chatserve.bench import lines
from chatserve.bench.curves import Figure, figures
from chatserve.bench.definitions import DEFINITIONS
from chatserve.bench.record import Record
from chatserve.bench.svg import drawn
from chatserve.bench.tree import any_figures, html_table
from chatserve.bench.values import shown

STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 74rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.6rem; border-bottom: 1px solid var(--line); }
h3 { margin: 1.4rem 0 .3rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .3rem 0 1rem; }
th, td { padding: .22rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; } thead th { background: var(--soft); }
td.words { text-align: left; max-width: 40rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
svg .grid { stroke: var(--line); stroke-width: 1; }
.note { border-left: 4px solid #bf8700; padding-left: .8rem; } dt { font-weight: 600; } .quiet { opacity: .75; }
""".strip()


class NoFigures(Exception):
    """A file that no page can be made of; the message says why."""


@dataclass(frozen=True, slots=True)
class Section:
    """Of one file. content: a record of `chatserve bench`, or whatever JSON it is."""

    name: str
    content: Record | Any

    @classmethod
    def read(cls, file: Path) -> Section:
        """Raises NoFigures."""
        try:
            data = file.read_bytes()
            content = msgspec.json.decode(data)
            if isinstance(content, dict) and content.get("kind") == "chatserve bench":
                content = msgspec.json.decode(data, type=Record)
        except OSError as error:
            raise NoFigures(f"{file}: {error.strerror}") from None
        except msgspec.DecodeError as error:
            raise NoFigures(f"{file} holds no figures: {error}") from None
        return cls(file.name, content)


def page(sections: Sequence[Section]) -> str:
    """The whole of it."""
    parts = [part for place, section in enumerate(sections) for part in _section(section, f"file-{place}")]
    links = [f'<li><a href="#file-{place}">{escape(each.name)}</a></li>' for place, each in enumerate(sections)]
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">""",
            f"<title>What was measured</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>",
            f"<h1>What was measured</h1>\n<ul>{''.join(links)}</ul>",
            *parts,
            "<h2>What the numbers mean</h2>\n<dl>",
            *(f"<dt>{escape(name)}</dt><dd>{escape(meaning)}</dd>" for name, meaning in DEFINITIONS.items()),
            "</dl>\n</body>\n</html>\n",
        ]
    )


def _section(section: Section, anchor: str) -> Iterator[str]:
    yield f'<h2 id="{anchor}">{escape(section.name)}</h2>'
    if isinstance(section.content, Record):
        yield from _of_record(section.content)
    else:
        yield from any_figures(section.content)


def _of_record(record: Record) -> Iterator[str]:
    yield f'<p class="quiet">{escape(record.began)}; {escape(shown_machine(record))}</p>'
    yield "<p>" + "<br>".join(map(escape, lines.terms_lines(record))) + "</p>"
    yield from (f'<p class="note">{escape(remark)}</p>' for remark in lines.remarks(record))
    for table in lines.tables(record):
        yield f"<h3>{escape(table.title)}</h3>"
        yield html_table(table.columns, table.rows)
    yield f'<p class="quiet">{escape(lines.client_line(record.runs))}</p>'
    yield plots(list(figures(record)))


def shown_machine(record: Record) -> str:
    """Of the client."""
    return ", ".join(f"{name} {shown(value)}" for name, value in record.machine.items())


def plots(drawings: Sequence[Figure]) -> str:
    """Side by side where there is room."""
    each = (f"<figure><figcaption>{escape(one.title)}</figcaption>{drawn(one)}</figure>" for one in drawings)
    return f'<div class="plots">{"".join(each)}</div>'
