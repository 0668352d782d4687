"""A figure as an SVG element for a page: text is escaped, and nothing outside is referred to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

from chatserve.bench.curves import Figure, Point

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 14, 12, 44
COLOURS: Final = ("#1f6feb", "#d1242f", "#1a7f37", "#8250df", "#bf8700", "#0a7ea4")
DASHES: Final = ("", "6 3", "2 3")
"""Colours repeat with another dash: lines are told apart without colour, too."""


def drawn(figure: Figure) -> str:
    """With its legend; a line's points are joined in their order."""
    points = [point for line in figure.lines for point in line.points]
    across, up = _Axis([x for x, _ in points]), _Axis([y for _, y in points], zero=True)
    legend = 18 * len(figure.lines)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + legend}" role="img" aria-label="{escape(figure.title)}">',
        *_grid(across, up),
        f'<text class="axis" x="{WIDTH / 2}" y="{HEIGHT - 6}" text-anchor="middle">{escape(figure.x)}</text>',
        f'<text class="axis" transform="translate(13 {(HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(figure.y)}</text>",
    ]
    for place, line in enumerate(figure.lines):
        colour, dash = COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)]
        style = f'fill="none" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dash}"'
        parts.append(f'<polyline {style} points="{_path(line.points, across, up)}"/>')
        y = HEIGHT + 18 * place + 6
        parts.append(f'<line x1="{LEFT}" x2="{LEFT + 24}" y1="{y}" y2="{y}" {style}/>')
        parts.append(f'<text class="legend" x="{LEFT + 32}" y="{y + 4}">{escape(line.label)}</text>')
    return "\n".join([*parts, "</svg>"])


class _Axis:
    """Round numbers around all values."""

    def __init__(self, values: Sequence[float], *, zero: bool = False) -> None:
        low, high = min(values, default=0.0), max(values, default=1.0)
        low = min(low, 0.0) if zero or low < (high - low) else low
        self.step = _round_step((high - low) / 5 or 1.0)
        self.low = math.floor(low / self.step) * self.step
        self.high = max(math.ceil(high / self.step) * self.step, self.low + self.step)

    def ticks(self) -> Iterator[float]:
        for place in range(round((self.high - self.low) / self.step) + 1):
            yield self.low + place * self.step

    def share(self, value: float) -> float:
        """0 at its low end, 1 at its high end."""
        return (value - self.low) / (self.high - self.low)


def _round_step(step: float) -> float:
    """1, 2 or 5 times a power of ten, not below it."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def _grid(across: _Axis, up: _Axis) -> Iterator[str]:
    for tick in across.ticks():
        x = _x(across, tick)
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
        yield f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:,.6g}</text>'
    for tick in up.ticks():
        y = _y(up, tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{tick:,.6g}</text>'


def _path(points: Sequence[Point], across: _Axis, up: _Axis) -> str:
    return " ".join(f"{_x(across, x)},{_y(up, y)}" for x, y in points)


def _x(axis: _Axis, value: float) -> float:
    return round(LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT), 1)


def _y(axis: _Axis, value: float) -> float:
    return round(HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM), 1)
