"""Where a model comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chatserve.model.errors import ModelNotFound


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model comes from: what transformers' from_pretrained wants, and the name users see."""

    location: str
    options: Mapping[str, str]
    name: str


def locate(source: str) -> Origin:
    """Raises ModelNotFound for what is written like a path and is not there."""
    path = Path(source)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ModelNotFound(f"there is no file {source}")
        return Origin(str(path.parent), {"gguf_file": path.name}, path.stem)
    if path.is_dir():
        return Origin(str(path), {}, path.resolve().name)
    if path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1:
        raise ModelNotFound(f"there is no folder {source}")
    return Origin(source, {}, source)
