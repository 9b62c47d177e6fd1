"""A replayable stream: a folder to which files of JSON lines are appended, and which Spark reads."""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path


class Stream:
    """One writer's end. A file is seen whole or not at all; those of an earlier writer stay."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._files = sum(1 for _ in folder.glob("*.json"))

    def append(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Append rows as one file."""
        name = f"{self._files:06d}-{os.getpid()}"
        hidden = self._folder / f".{name}"
        hidden.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        hidden.rename(self._folder / f"{name}.json")
        self._files += 1
