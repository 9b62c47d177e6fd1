"""The table of results: its lines, and the curves of the plots, written for people, pages and programs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from bench.measure import Series

COLUMNS = ("", "dedupe window", "measured", "compared with", "its figure", "ratio (lowest to highest)", "to reach")
NO_WINDOW, AUTOMATIC = "0", "automatic"
"""The dedupe windows of the topologies that are measured; any other is named by its length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that was measured beside another one in the same run, round by round.

    ``at_most`` and ``at_least`` bound the median of ``measured``, ``ratio_at_most`` the median of the rounds' ratios,
    ``lowest_ratio_at_most`` the lowest of them. At most one of the four is given; without any, nothing is promised.
    ``window`` is the topology's dedupe window.
    """

    group: str
    what: str
    unit: str
    measured: Series
    beside: str
    base: Series
    at_most: float | None = None
    at_least: float | None = None
    ratio_at_most: float | None = None
    lowest_ratio_at_most: float | None = None
    window: str = NO_WINDOW

    @property
    def ratio(self) -> Series:
        """How often the other thing goes into it."""
        return self.measured.over(self.base)

    @property
    def reached(self) -> bool | None:
        """Whether it stays within what was promised; None: nothing was."""
        if self.at_most is not None:
            return self.measured.median <= self.at_most
        if self.at_least is not None:
            return self.measured.median >= self.at_least
        if self.ratio_at_most is not None:
            return self.ratio.median <= self.ratio_at_most
        return None if self.lowest_ratio_at_most is None else self.ratio.low <= self.lowest_ratio_at_most

    @property
    def goal(self) -> str:
        """What is promised, in words; empty: nothing is."""
        if self.at_most is not None:
            return f"≤ {number(self.at_most)}"
        if self.at_least is not None:
            return f"≥ {number(self.at_least)}"
        if self.ratio_at_most is not None:
            return f"ratio ≤ {number(self.ratio_at_most)}"
        return "" if self.lowest_ratio_at_most is None else f"lowest ratio ≤ {number(self.lowest_ratio_at_most)}"

    def cells(self) -> tuple[str, ...]:
        """Write it as one string a column."""
        verdict = {None: "", True: f"{self.goal}: reached", False: f"{self.goal}: NOT reached"}[self.reached]
        ratio = self.ratio
        spread = f" ({number(ratio.low)} to {number(ratio.high)})" if len(ratio.values) > 1 else ""
        return (
            self.what,
            self.window,
            f"{number(self.measured.median)} {self.unit}",
            self.beside,
            number(self.base.median),
            f"{number(ratio.median)}{spread}",
            verdict,
        )

    def document(self) -> dict[str, Any]:
        """Write it for programs, with the values of all rounds."""
        return asdict(self) | {"ratio": asdict(self.ratio), "goal": self.goal, "reached": self.reached}


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A line that could not be measured, and why."""

    group: str
    what: str
    why: str

    def cells(self) -> tuple[str, ...]:
        """Write it as one string a column."""
        return self.what, "", "not measured", self.why, "", "", ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points of one line of a plot, ``plot``; ``name`` stands beside the line."""

    group: str
    plot: str
    name: str
    points: tuple[tuple[float, float], ...]


Result = Line | Skipped | Curve


def number(value: float) -> str:
    """Write a number with three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def rows(results: Sequence[Result]) -> list[Line | Skipped]:
    """Return those that are rows of the table."""
    return [result for result in results if not isinstance(result, Curve)]


def for_terminal(results: Sequence[Result]) -> Table:
    """Lay the lines out for a terminal, a section a group."""
    table, shown = Table(*COLUMNS), rows(results)
    for index, row in enumerate(shown):
        last = index + 1 == len(shown) or shown[index + 1].group != row.group
        table.add_row(*row.cells(), end_section=last)
    return table


def for_page(results: Sequence[Result]) -> str:
    """Write the lines as the tables of a Markdown page, one a group."""
    parts, shown = [], rows(results)
    for group in dict.fromkeys(row.group for row in shown):
        cells = [row.cells() for row in shown if row.group == group]
        head = (f"**{group}**", *COLUMNS[1:])
        parts.append("\n".join(map(_row, (head, ("---",) * len(COLUMNS), *cells))))
    return "\n\n".join(parts)


def for_programs(results: Sequence[Result], machine: dict[str, str], took_s: Mapping[str, float] | None = None) -> str:
    """Write the lines, the curves, the machine, and the seconds that each group took, as JSON."""
    document = {
        "machine": machine,
        "took_s": {group: round(seconds, 1) for group, seconds in (took_s or {}).items()},
        "lines": [result.document() for result in results if isinstance(result, Line)],
        "skipped": [asdict(result) for result in results if isinstance(result, Skipped)],
        "curves": [asdict(result) for result in results if isinstance(result, Curve)],
    }
    return json.dumps(document, indent=2) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
