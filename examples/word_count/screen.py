"""Shows a run: live on a terminal, else as one line a second."""

import time
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

Figures = dict[str, int]

SHOWN = ("acked", "pending", "waiting", "failed", "timed_out", "replayed")
EVERY_S = 1.0


class Screen:
    """Shows the figures of a round of so many lines, and prints events."""

    def __init__(self, console: Console, *, lines: int) -> None:
        self._console = console
        self._lines = lines
        self._before: tuple[float, int] | None = None
        self._rate = 0.0
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def log(self, event: str) -> None:
        """Print an event that stays on the screen."""
        self._console.print(event, style="yellow")

    def show(self, figures: Figures) -> None:
        """Show the figures of the moment; the trees per second are those of the last second."""
        second_is_over = self._measure(figures["acked"])
        if self._live is not None:
            self._live.update(self._table(figures))
        elif second_is_over:
            listed = "  ".join(f"{name.replace('_', ' ')} {figures[name]}" for name in SHOWN)
            self._console.print(f"{listed}  {self._rate:.0f} trees/s")

    def _measure(self, acked: int) -> bool:
        """Measure the rate once a second; says whether it was time to."""
        now = time.monotonic()
        then, were_acked = self._before = self._before or (now, acked)
        if now < then + EVERY_S:
            return False
        self._rate = (acked - were_acked) / (now - then)
        self._before = now, acked
        return True

    def _table(self, figures: Figures) -> Table:
        table = Table(title=f"{figures['acked']} of {self._lines} lines")
        for name in (*SHOWN, "trees/s"):
            table.add_column(name.replace("_", " "), justify="right", min_width=8)
        table.add_row(*(str(figures[name]) for name in SHOWN), f"{self._rate:.0f}")
        return table
