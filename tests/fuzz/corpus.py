"""The inputs that are kept: a file for each target, an input a line, in base64."""

import base64
from collections.abc import Iterable
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
MOST, MOST_BYTES = 150, 2_048
"""So many inputs of a target are kept, of so many bytes each."""


def read(target: str) -> list[bytes]:
    """Return the inputs that are kept of a target."""
    file = FOLDER / f"{target}.txt"
    return [base64.b64decode(line) for line in file.read_text(encoding="ascii").splitlines()] if file.exists() else []


def add(target: str, *inputs: Iterable[bytes]) -> int:
    """Keep further inputs of a target, the shortest of each kind first; return how many are kept."""
    kept = dict.fromkeys(read(target))
    for each in inputs:
        kept |= dict.fromkeys(sorted((one for one in each if len(one) <= MOST_BYTES), key=lambda one: (len(one), one)))
    lines = [f"{base64.b64encode(each).decode()}\n" for each in list(kept)[:MOST]]
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{target}.txt").write_text("".join(lines), encoding="ascii")
    return len(lines)
