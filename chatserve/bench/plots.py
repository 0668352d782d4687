"""Figures as PNG files: the one module that needs matplotlib."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from chatserve.bench.curves import Figure

INCHES = (7.5, 4.2)


def draw_all(figures: Iterable[Figure], folder: Path) -> list[Path]:
    """One file each, named by its title; a folder that is not there is made."""
    folder.mkdir(parents=True, exist_ok=True)
    return [draw(figure, folder / f"{_file_name(figure.title)}.png") for figure in figures]


def draw(figure: Figure, file: Path) -> Path:
    """No display is needed: nothing is shared with other plots of the process."""
    canvas = Canvas(figsize=INCHES, layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.add_subplot(title=_plain(figure.title), xlabel=_plain(figure.x), ylabel=_plain(figure.y))
    for line in figure.lines:
        axes.plot(*zip(*line.points, strict=True), label=_plain(line.label), linewidth=1.4)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    canvas.savefig(file, dpi=130)
    return file


def _plain(text: str) -> str:
    """A dollar begins a formula there."""
    return text.replace("$", r"\$")


def _file_name(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", title.partition(":")[0].lower()).strip("_")
