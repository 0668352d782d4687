"""Figures kept as they come: a file that is whole after each part, so that a run cut short loses only its last.

Free of torch, so that a client costs no more than it must.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
_BEGAN = time.monotonic()


def say(text: str) -> None:
    """One line of progress, at once, with the seconds since the program began."""
    print(f"[{time.monotonic() - _BEGAN:7.1f} s] {text}", flush=True)


class Kept:
    """What was measured so far, in a file. The machine stands beside the numbers."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self.figures: dict[str, Any] = {"machine": machine()}

    def put(self, name: str, figures: Any) -> None:
        """Keep one part. The file is replaced as a whole: it never holds half of anything."""
        self.figures[name] = figures
        self._out.parent.mkdir(parents=True, exist_ok=True)
        partial = self._out.with_suffix(".partial")
        partial.write_text(page(self.figures))
        partial.replace(self._out)


def page(figures: dict[str, Any]) -> str:
    """JSON with a line for each figure: not for each number of a long row."""
    parts = []
    for name, part in figures.items():
        match part:
            case dict():
                inner = ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in part.items())
                text = f"{{\n{inner}\n  }}"
            case list():
                text = "[\n" + ",\n".join(f"    {json.dumps(value)}" for value in part) + "\n  ]"
            case _:
                text = json.dumps(part)
        parts.append(f"  {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def machine() -> dict[str, Any]:
    """What the numbers come from."""
    return {
        "gpu": gpu_name(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: found for name in ("torch", "transformers", "triton") if (found := version(name))},
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def version(name: str) -> str | None:
    """Of an installed package; None where there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def gpu_name() -> str | None:
    """The first GPU's name, without starting CUDA; None where there is none."""
    if shutil.which("nvidia-smi") is None:
        return None
    asked = subprocess.run(
        ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip().partition("\n")[0] or None


def until(true: Callable[[], bool], seconds: float, every: float = 0.05) -> bool:
    """Wait for something to come true; whether it did within `seconds`."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(every)
    return True
