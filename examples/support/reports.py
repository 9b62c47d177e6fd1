"""Reports from a process to its starter: lines of JSON in its log, beside its other output."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def report(**values: object) -> None:
    """Tell something, in one write and on a line of its own.

    The JVM of a Spark driver writes into the same log, and may be in the middle of a line.
    """
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), f"\n{json.dumps(values, ensure_ascii=False)}\n".encode())


class Reports:
    """What the processes that share a log have reported and was not read yet."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._at = 0

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield what is new."""
        if not self._log.exists():
            return
        with self._log.open("rb") as log:
            log.seek(self._at)
            for line in log:
                if not line.endswith(b"\n"):
                    return  # the rest of it is still to come
                self._at += len(line)
                if line.startswith(b'{"'):
                    yield json.loads(line)
