"""`chatserve bench report`: what was measured, as one page."""

from __future__ import annotations

import sys
from pathlib import Path

from chatserve.bench.page import NoFigures, Section, page


def run(*, files: list[Path], out: Path) -> int:
    """Exit status."""
    try:
        text = page([Section.read(file) for file in files])
        out.write_text(text, encoding="utf-8")
    except (NoFigures, OSError) as error:
        print(f"chatserve bench report: {error}", file=sys.stderr)
        return 1
    print(f"{out} shows {len(files)} file{'s' * (len(files) != 1)}; it needs nothing but a browser")
    return 0
