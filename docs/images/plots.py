"""Draws plots of curves: points over a logarithmic or an even axis, and below it the name of each line.

A plot is as narrow, and its letters are as large, as can be read where a page is 390 pixels wide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from docs.images.svg import Drawing

WIDTH = 600
LEFT, RIGHT, TOP, BOTTOM = 84, 566, 72, 320
"""The edges of the plot within the drawing; the names of the lines stand below it, in rows of `IN_A_ROW`."""
NAMES, ROW, IN_A_ROW = 396, 28, 2
"""Where the first row of names stands, its height, and how many names are in it."""
COLOURS = ("#0969da", "#cf222e", "#1a7f37", "#9a6700", "#8250df", "#59636e")
DARK = ("#4493f8", "#f85149", "#3fb950", "#d29922", "#ab7df8", "#9198a1")
SUFFIXES = ((1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis: its label, the values at which it is marked, and whether its steps are factors."""

    label: str
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Return how far along the axis a value lies, from 0 to 1."""
        first, last = self.ticks[0], self.ticks[-1]
        if self.logarithmic:
            first, last, value = (math.log10(max(one, 1e-9)) for one in (first, last, value))
        return (value - first) / (last - first)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a plot."""

    name: str
    points: Sequence[tuple[float, float]]


def logarithmic(label: str, values: Sequence[float]) -> Axis:
    """Make an axis of powers of ten that holds all values."""
    low = math.floor(math.log10(min(values)))
    high = max(low + 1, math.ceil(math.log10(max(values))))
    return Axis(label=label, ticks=tuple(10.0**power for power in range(low, high + 1)), logarithmic=True)


def even(label: str, values: Sequence[float]) -> Axis:
    """Make an axis from zero with four or five even steps that holds all values."""
    rough = max(values) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * unit >= rough)
    return Axis(label=label, ticks=tuple(step * number for number in range(math.ceil(max(values) / step) + 1)))


def plot(title: str, x: Axis, y: Axis, lines: Sequence[Line]) -> Drawing:
    """Draw lines over two axes."""
    rows = math.ceil(len(lines) / IN_A_ROW)
    drawing = Drawing(width=WIDTH, height=NAMES + ROW * rows, title=title)
    drawing.parts.append(f"<style>{_colours()}</style>")
    drawing.text(16, 28, title, style="h l")
    for tick in x.ticks:
        at = LEFT + x.share(tick) * (RIGHT - LEFT)
        drawing.parts.append(f'<line class="grid" x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{BOTTOM}"/>')
        drawing.text(at, BOTTOM + 24, short(tick), style="l d", anchor="middle")
    for tick in y.ticks:
        at = BOTTOM - y.share(tick) * (BOTTOM - TOP)
        drawing.parts.append(f'<line class="grid" x1="{LEFT}" y1="{at:.1f}" x2="{RIGHT}" y2="{at:.1f}"/>')
        drawing.text(LEFT - 8, at + 6, short(tick), style="l d", anchor="end")
    drawing.text(RIGHT, BOTTOM + 50, x.label, style="l d", anchor="end")
    drawing.text(16, TOP - 16, y.label, style="l d")
    for number, line in enumerate(lines):
        _draw(drawing, line, number, x, y)
    return drawing


def _draw(drawing: Drawing, line: Line, number: int, x: Axis, y: Axis) -> None:
    """Draw a line with its points, and its name at its height in the legend."""
    places = [
        (LEFT + x.share(across) * (RIGHT - LEFT), BOTTOM - y.share(up) * (BOTTOM - TOP)) for across, up in line.points
    ]
    colour = f"k{number % len(COLOURS)}"
    path = " ".join(f"{across:.1f},{up:.1f}" for across, up in places)
    drawing.parts.append(f'<polyline class="k {colour}" points="{path}"/>')
    drawing.parts.extend(f'<circle class="{colour} dot" cx="{a:.1f}" cy="{u:.1f}" r="3"/>' for a, u in places)
    row, column = divmod(number, IN_A_ROW)
    left, at = 16 + column * (WIDTH - 16) // IN_A_ROW, NAMES + ROW * row
    drawing.parts.append(f'<line class="k {colour}" x1="{left}" y1="{at}" x2="{left + 24}" y2="{at}"/>')
    drawing.text(left + 32, at + 6, line.name, style="l")


def short(value: float) -> str:
    """Write a tick's value in few characters."""
    for size, suffix in SUFFIXES:
        if value >= size:
            return f"{value / size:g}{suffix}"
    return f"{value:g}"


def _colours() -> str:
    light = "".join(f".k{n}{{stroke:{c}}}.k{n}.dot{{fill:{c}}}" for n, c in enumerate(COLOURS))
    dark = "".join(f".k{n}{{stroke:{c}}}.k{n}.dot{{fill:{c}}}" for n, c in enumerate(DARK))
    fixed = ".l{font-size:17px}.k{fill:none;stroke-width:2}.grid{stroke:#818b98;stroke-width:.5;opacity:.5}"
    return f"{fixed}{light}@media(prefers-color-scheme:dark){{{dark}}}"
