"""Where the demo model lies once it is converted, and how to tell; free of torch, for those who only look."""

from __future__ import annotations

from pathlib import Path

FOLDER = "smollm2-135m-instruct"
FORMAT = "2"
"""Of the converted folder; raised whenever the conversion changes what it writes."""
FORMAT_FILE = "conversion_format.txt"


def demo_path(cache: Path) -> Path:
    """Where the converted demo model lies (or will lie) under `cache`."""
    return cache / FOLDER


def is_current(folder: Path) -> bool:
    """Whether the demo model lies in `folder`, as today's conversion writes it."""
    marker = folder / FORMAT_FILE
    return marker.is_file() and marker.read_text() == FORMAT
