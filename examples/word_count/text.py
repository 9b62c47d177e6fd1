"""The book: its lines, their words, and the plain count that the workers have to equal."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

BOOK = Path(__file__).with_name("opticks.txt")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")


def read_lines() -> dict[int, str]:
    """Read the lines that are not empty, by their number in the file, which begins at 1."""
    numbered = enumerate(BOOK.read_text(encoding="utf-8").splitlines(), start=1)
    return {number: line for number, line in numbered if line.strip()}


def words(line: str) -> list[str]:
    """Split a line into its words, in small letters and in their order."""
    return _WORD.findall(line.lower())


def plain_count(lines: Iterable[str]) -> Counter[str]:
    """Count the words in one loop."""
    return Counter(word for line in lines for word in words(line))
