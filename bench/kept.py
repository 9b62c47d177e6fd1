"""The file of what `make bench-long` has measured: one line of JSON for each case."""

import json
from pathlib import Path

from bench import baseline
from bench.measure import Series

KEPT = Path(__file__).parent / "long.jsonl"

Taken = dict[str, Series]


class Kept:
    """What was measured, each case under a key of its own."""

    def __init__(self, path: Path = KEPT) -> None:
        self._path = path
        self._found: dict[str, Taken] = {}
        self._commits: dict[str, str] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            record = json.loads(line)
            self._found[record["key"]] = {name: Series.of(values) for name, values in record["taken"].items()}
            self._commits[record["key"]] = record["commit"]

    def get(self, key: str) -> Taken | None:
        """Return what a case came to, None if it is not there."""
        return self._found.get(key)

    def commit(self, key: str) -> str:
        """Return the commit that a case was measured at, nothing if it is not there."""
        return self._commits.get(key, "")

    def add(self, key: str, taken: Taken) -> None:
        """Write what a case came to."""
        self._found[key], self._commits[key] = taken, baseline.head()
        values = {name: series.values for name, series in taken.items()}
        with self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"key": key, "commit": self._commits[key], "taken": values}) + "\n")


def store_section(store: str = "Valkey", timeout: str = "a week", aof: str = "off") -> str:
    """Name a table of the matrix of stores, timeouts and append-only files."""
    return f"{store}, timeouts of {timeout}, append-only file {aof}"


def store_key(section: str, pending: int) -> str:
    """Name a case of this matrix."""
    return f"{section}, {pending:,} pending"


SIMULATED_SECTION = f"{store_section()}, simulated"
"""The table of pending roots that were written by `bench.simulated`."""
