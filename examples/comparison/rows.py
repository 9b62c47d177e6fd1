"""The rows of an import, three of which are wrong, and those of one that is ended while it runs."""

import time

ROWS = range(30)
_WRONG = frozenset({3, 7, 29})


class WrongRow(Exception):
    """A row that cannot be imported. Trying again does not help."""


def load_row(row: int) -> None:
    """Import a row. Raises `WrongRow`."""
    if row in _WRONG:
        raise WrongRow(f"row {row} has no price")


MANY_ROWS = range(10_000)
ENDED_AFTER = 100
"""An import is ended once so many of its many rows are imported."""


def load_row_slowly(row: int) -> None:
    """Import a row, which takes a millisecond. Raises `WrongRow`."""
    time.sleep(0.001)
    if row not in MANY_ROWS:
        raise WrongRow(f"there is no row {row}")
