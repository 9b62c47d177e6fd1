"""Shows a run: one line a second, and a table at the end."""

import time

from rich.console import Console
from rich.table import Table

EVERY_S = 1.0


class Screen:
    """Shows how far a run of so many orders is, and prints events."""

    def __init__(self, console: Console, *, orders: int) -> None:
        self.console = console
        self._orders = orders
        self._shown = 0.0

    def log(self, event: str) -> None:
        """Print an event."""
        self.console.print(event, style="yellow", markup=False)

    def show(self, *, done: int, waiting: int, killed: int) -> None:
        """Show the figures of the moment, if the last ones are a second old."""
        if time.monotonic() - self._shown >= EVERY_S:
            self._shown = time.monotonic()
            self.console.print(f"{done} of {self._orders} orders done, {waiting} waiting; {killed} processes killed")

    def table(self, title: str, rows: dict[str, int]) -> None:
        """Show figures at the end."""
        table = Table(title=title, show_header=False)
        for name, figure in rows.items():
            table.add_row(name, str(figure))
        self.console.print(table)

    def claim(self, says: str, *, holds: bool) -> None:
        """Show a claim and whether it holds."""
        self.console.print("  proven" if holds else "  WRONG ", style="green" if holds else "red", end="  ")
        self.console.print(says, markup=False)
