"""Figures as Markdown tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row; the columns in the order in which they first appear."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, ["---"] * len(columns), *([cell(row.get(name)) for name in columns] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def cell(value: Any) -> str:
    """Numbers with the digits that mean something."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float() if abs(value) >= 100:
            return f"{value:,.0f}"
        case float():
            return f"{value:.3g}" if abs(value) < 10 else f"{value:.1f}"
        case int():
            return f"{value:,}"
        case list() | tuple():
            return " / ".join(cell(each) for each in value)
    return str(value).replace("|", "\\|").replace("\n", " ")
