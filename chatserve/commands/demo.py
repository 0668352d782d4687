"""`chatserve demo`: fetch the demo model, which takes torch; `serve` runs it as a program of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from chatserve.model.demo import fetch_demo
from chatserve.model.demo_folder import demo_path
from chatserve.model.errors import DemoUnavailable


def run(*, cache: Path) -> int:
    """Exit status."""
    try:
        fetch_demo(demo_path(cache), progress=lambda line: print(line, file=sys.stderr, flush=True))
    except DemoUnavailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0
