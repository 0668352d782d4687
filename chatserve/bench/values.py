"""A number as people read it."""

from __future__ import annotations

from typing import Any


def shown(value: Any) -> str:
    """With the digits that mean something."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float() if abs(value) >= 1000:
            return f"{value:,.0f}"
        case float():
            return f"{value:.4g}"
        case list() | tuple():
            return " / ".join(map(shown, value))
    return str(value)
