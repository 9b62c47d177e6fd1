"""Stores counted words in a file that outlives its worker; the same word of the same line counts once."""

import sqlite3
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from examples.word_count.tuples import Word

_TABLES = """
CREATE TABLE IF NOT EXISTS counted (line INTEGER, position INTEGER, word TEXT NOT NULL, PRIMARY KEY (line, position));
CREATE TABLE IF NOT EXISTS again (words INTEGER NOT NULL);
"""


class Tally:
    """The words one count worker has counted. The work is idempotent, so that at least once has the effect of once."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path)
        self._file.execute("PRAGMA journal_mode = WAL")
        self._file.executescript(_TABLES)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def add(self, words: Iterable[Word]) -> None:
        """Count words, all of them or, if the worker dies, none; those that are there already are not counted again."""
        rows = [(word["line"], word["position"], word["word"]) for word in words]
        with self._file:
            new = self._file.executemany("INSERT OR IGNORE INTO counted VALUES (?, ?, ?)", rows).rowcount
            self._file.execute("INSERT INTO again VALUES (?)", [len(rows) - new])

    def counts(self) -> Counter[str]:
        """Return how often each word was counted."""
        return Counter(dict(self._file.execute("SELECT word, count(*) FROM counted GROUP BY word")))

    def duplicates(self) -> int:
        """Return how many words came again, in a replay, and were not counted twice."""
        return int(self._file.execute("SELECT coalesce(sum(words), 0) FROM again").fetchone()[0])
