"""The rows of an import, three of which are wrong."""

ROWS = range(30)
_WRONG = frozenset({3, 7, 29})


class WrongRow(Exception):
    """A row that cannot be imported. Trying again does not help."""


def load_row(row: int) -> None:
    """Import a row. Raises `WrongRow`."""
    if row in _WRONG:
        raise WrongRow(f"row {row} has no price")
