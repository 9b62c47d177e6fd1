"""Shows how far a long measurement is, on the error output so that the table can be piped elsewhere."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Console
from rich.progress import track

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
    """Shows the progress of one group."""

    group: str

    def over(self, rounds: Sequence[T]) -> Iterator[T]:
        """Go through rounds, and show how many there are and how long they will take."""
        yield from track(rounds, description=f"{self.group:<10}", console=Console(stderr=True))
