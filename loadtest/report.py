"""How every benchmark here keeps what it measured: one JSON file with the machine beside the numbers."""

from __future__ import annotations

import argparse
import json
import os
import platform
from pathlib import Path
from typing import Any

import torch

from loadtest.kept import RESULTS


def options(description: str | None, name: str) -> argparse.ArgumentParser:
    """A parser with --out, by default results/NAME.json beside this file."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS / f"{name}.json")
    return parser


def keep(out: Path, figures: dict[str, Any]) -> None:
    """Print the figures and write them with the machine they come from."""
    machine = {
        "cpus": os.cpu_count(),
        "processor": platform.processor() or platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }
    text = json.dumps({"machine": machine, **figures}, indent=2)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text + "\n")
    print(text)
