"""The options of a run, and the addresses of its parts."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from examples.word_count import text

TOPOLOGY, SPOUT = "sentences", "reader"
MESSAGE_TIMEOUT_S, DEDUPE_S = 600, 1_200
TOGETHER = 20
"""So many sentences are a file of the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run as the command line asks for it; with ``acker`` and ``folder``, as its processes get it."""

    lines: int
    max_pending: int
    hard_word: str
    within_s: float
    careless: bool
    acker: str = ""
    folder: str = ""

    def check(self) -> None:
        """Raise ``ValueError`` if this plan cannot show what it is to show."""
        if self.max_pending < 2 * TOGETHER or self.within_s <= 0:
            raise ValueError(f"max-pending has to be {2 * TOGETHER} at least, and seconds more than 0")
        if self.lines <= self.max_pending:
            raise ValueError("take more lines than max-pending, so that there is more than one batch")
        if not self.hard():
            raise ValueError(f"no line of these says {self.hard_word!r}, so none would fail")

    def sentences(self) -> dict[int, str]:
        """Read the lines to count, by number."""
        return dict(islice(text.read_lines().items(), self.lines))

    def hard(self) -> set[int]:
        """Return which of them will fail the first time."""
        return {number for number, line in self.sentences().items() if self.hard_word in text.words(line)}

    @property
    def stream(self) -> Path:
        """The replayable stream of sentences."""
        return Path(self.folder) / "sentences"

    @property
    def counts(self) -> Path:
        """The counts of each batch."""
        return Path(self.folder) / "counts"

    @property
    def checkpoint(self) -> Path:
        """Where Spark keeps how far it is."""
        return Path(self.folder) / "checkpoint"
