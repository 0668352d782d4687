"""Every benchmark of a GPU in turn, joined into one JSON and one Markdown page.

    python -m loadtest.bench_gpu --model .models/llama-8b-shape --out loadtest/results/gpu.json
    python -m loadtest.bench_gpu --quick --only decode,prefill

Each part is a program of its own with its own limit of time; one that fails loses no other, and what it had kept by
then is kept here too. The joined file is written after each part; --only leaves the other parts in it as they are, so
that a bench can be made in several runs. Exit status 1 if any part failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from loadtest.gpu_page import page
from loadtest.kept import RESULTS, Kept, say

LAST_LINES = 12
MODEL = Path(".models/llama-8b-shape")


@dataclass(frozen=True, slots=True)
class Part:
    """module: the program.  seconds: that it may take.  takes_model, takes_quick: what its command line knows."""

    module: str
    seconds: float
    takes_model: bool = False
    takes_quick: bool = True
    arguments: tuple[str, ...] = ()


PARTS = {
    "decode": Part("loadtest.gpu_decode", 240),
    "prefill": Part("loadtest.gpu_prefill", 240),
    "step": Part("loadtest.gpu_decode_step", 240, takes_model=True),
    "calls": Part("loadtest.takeover", 120, takes_quick=False, arguments=("--driver", "cuda")),
    "memory": Part("loadtest.memory_figures", 180, arguments=("--driver", "cuda")),
    "rounding": Part("loadtest.gpu_memory", 240, takes_model=True),
    "eviction": Part("loadtest.gpu_eviction", 120, takes_model=True, takes_quick=False),
    "turn": Part("loadtest.gpu_turn", 240, takes_model=True),
    "serve": Part("loadtest.gpu_serve", 560, takes_model=True),
}
"""In the order in which they run: kernels first, the server last."""
PLOTS = "loadtest.draw_memory"


def main() -> int:
    """The parts that were asked for."""
    options = arguments()
    out: Path = options.out
    chosen = options.only.split(",") if options.only else list(PARTS)
    kept = Kept(out)
    if options.only and out.exists():
        kept.figures |= {name: part for name, part in json.loads(out.read_text()).items() if name in PARTS}
    for name in chosen:
        say(f"== {name}")
        kept.put(name, run(PARTS[name], out.with_suffix(f".{name}.json"), options))
        out.with_suffix(".md").write_text(page(kept.figures))
    draw(out, kept)
    say(f"wrote {out} and {out.with_suffix('.md')}")
    failed = [name for name in chosen if "error" in kept.figures[name]]
    for name in failed:
        say(f"{name} failed: {kept.figures[name]['error']}")
    return 1 if failed else 0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=MODEL, help="a folder with config.json and a tokenizer")
    parser.add_argument("--quick", action="store_true", help="the rows that decide, fewer rounds")
    parser.add_argument("--only", help=f"parts, separated by commas, out of {', '.join(PARTS)}")
    parser.add_argument("--workers", type=int, default=4, help="processes of the server that talk to clients")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu.json")
    options = parser.parse_args()
    unknown = set((options.only or "").split(",")) - {"", *PARTS}
    if unknown:
        parser.error(f"no part is called {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    return options


def run(part: Part, out: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What the part kept, and under `error` why there is no more."""
    command = [sys.executable, "-u", "-m", part.module, "--out", str(out), *part.arguments]
    command += [str(options.model)] * part.takes_model + ["--quick"] * (part.takes_quick and options.quick)
    if part.module == "loadtest.gpu_serve":
        command += ["--workers", str(options.workers)]
    out.unlink(missing_ok=True)
    error = told(command, part.seconds)
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    found.pop("machine", None)
    out.unlink(missing_ok=True)
    out.with_suffix(".md").unlink(missing_ok=True)
    return found if error is None else found | {"error": error}


def told(command: Sequence[str], seconds: float) -> str | None:
    """Run it, its output going on to ours line by line; how it failed, in its own last words, or None."""
    lines: list[str] = []
    limited = ["timeout", "--kill-after=20", str(seconds), *command]
    with subprocess.Popen(limited, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode == 0:
        return None
    reason = f"no end within {seconds:g} s" if process.returncode == 124 else f"exit status {process.returncode}"
    return f"{reason}: {''.join(lines[-LAST_LINES:]).strip()}"


def draw(out: Path, kept: Kept) -> None:
    """The plots of the memory figures, where matplotlib is; elsewhere they can be drawn later, from the JSON."""
    memory = kept.figures.get("memory", {})
    if "batches" not in memory:
        return
    if find_spec("matplotlib") is None:
        say(f"no matplotlib here; elsewhere: python -m {PLOTS} {out}")
        return
    say(told([sys.executable, "-m", PLOTS, str(out)], 60) or "drawn")


if __name__ == "__main__":
    sys.exit(main())
