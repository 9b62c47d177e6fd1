"""The tuples between the processes: JSON objects, each with the headers that carry its anchors."""

from collections.abc import Sequence
from typing import TypedDict
from zlib import crc32


class Sentence(TypedDict):
    """From the spout to a split worker: one line of the book, and the number of the attempt."""

    headers: dict[str, str]
    line: int
    attempt: int
    text: str


class Word(TypedDict):
    """From a split worker to a count worker: one word, and its position."""

    headers: dict[str, str]
    line: int
    position: int
    word: str


def group_by_word(word: str, count_workers: Sequence[str]) -> str:
    """Choose the count worker of a word: Storm's fields grouping. Every process has to choose the same one."""
    return count_workers[crc32(word.encode()) % len(count_workers)]
