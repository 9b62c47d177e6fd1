"""The table of results: its lines, written for people, pages and programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from bench.measure import Series

COLUMNS = ("", "measured", "compared with", "its figure", "ratio (lowest to highest)", "to reach")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing that was measured beside another one in the same run, round by round.

    ``at_most`` is what the median of ``measured`` has to stay within; None: nothing is promised.
    """

    group: str
    what: str
    unit: str
    measured: Series
    beside: str
    base: Series
    at_most: float | None = None

    @property
    def ratio(self) -> Series:
        """How often the other thing goes into it."""
        return self.measured.over(self.base)

    @property
    def reached(self) -> bool | None:
        """Whether it stays within what was promised; None: nothing was."""
        return None if self.at_most is None else self.measured.median <= self.at_most

    def cells(self) -> tuple[str, ...]:
        """Write it as one string a column."""
        goal = ""
        if self.at_most is not None:
            goal = f"≤ {number(self.at_most)}: {'reached' if self.reached else 'NOT reached'}"
        ratio = self.ratio
        return (
            self.what,
            f"{number(self.measured.median)} {self.unit}",
            self.beside,
            number(self.base.median),
            f"{number(ratio.median)} ({number(ratio.low)} to {number(ratio.high)})",
            goal,
        )

    def document(self) -> dict[str, Any]:
        """Write it for programs, with the values of all rounds."""
        return asdict(self) | {"ratio": asdict(self.ratio), "reached": self.reached}


def number(value: float) -> str:
    """Write a number with three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def for_terminal(lines: Sequence[Line]) -> Table:
    """Lay the lines out for a terminal, a section a group."""
    table = Table(*COLUMNS)
    for index, line in enumerate(lines):
        last = index + 1 == len(lines) or lines[index + 1].group != line.group
        table.add_row(*line.cells(), end_section=last)
    return table


def for_page(lines: Sequence[Line]) -> str:
    """Write the lines as the tables of a Markdown page, one a group."""
    parts = []
    for group in dict.fromkeys(line.group for line in lines):
        rows = [line.cells() for line in lines if line.group == group]
        head = (f"**{group}**", *COLUMNS[1:])
        parts.append("\n".join(map(_row, (head, ("---",) * len(COLUMNS), *rows))))
    return "\n\n".join(parts)


def for_programs(lines: Sequence[Line], machine: dict[str, str]) -> str:
    """Write the lines and the machine as JSON."""
    return json.dumps({"machine": machine, "lines": [line.document() for line in lines]}, indent=2) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
