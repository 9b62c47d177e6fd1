"""Builds the records of a batch column by column."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = Sequence[Any]
"""One field of many operations; None where an operation leaves it out."""

Records = NDArray[np.void]
Where = NDArray[np.intp]


class StringTable:
    """Numbers the strings of a batch, from 1; records point to them by these numbers."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._numbers: dict[str | None, int] = {None: 0}

    def names(self, column: Column) -> list[int]:
        """Give the numbers of names; equal names have one number, for a batch has few."""
        for name in set(column) - self._numbers.keys():
            self.strings.append(name)
            self._numbers[name] = len(self.strings)
        return [self._numbers[name] for name in column]

    def texts(self, column: Column) -> NDArray[np.uint32]:
        """Give the numbers of texts; each has its own, for texts differ."""
        numbers, where = np.zeros(len(column), np.uint32), given(column)
        numbers[where] = np.arange(len(where)) + len(self.strings) + 1
        self.strings.extend(select(column, where))
        return numbers


def given(column: Column) -> Where:
    """Give the indexes of what is not None."""
    missing = column.count(None)
    if not missing:
        return np.arange(len(column))
    if missing == len(column):
        return np.empty(0, np.intp)
    return np.array([index for index, value in enumerate(column) if value is not None])


def select(column: Sequence[Any], where: Where) -> Sequence[Any]:
    """Give the values at these indexes."""
    return column if len(where) == len(column) else [column[index] for index in where.tolist()]


def all_in_range(numbers: NDArray[Any], allowed: range) -> bool:
    """Say whether all numbers are in a range. (``in`` would search it step by step for a number of numpy's.)"""
    return bool((numbers >= allowed.start).all() and (numbers < allowed.stop).all())


def put_ids(records: Records, field: str, column: Column) -> Where:
    """Put ids of 16 hex digits where they are given, and give where. Raises ``ValueError`` for other characters."""
    where = given(column)
    records[field][where] = _ids(select(column, where))
    return where


def put_integers(records: Records, field: str, column: Column, allowed: range) -> Where:
    """Put numbers where they are given, and give where. Raises ``ValueError`` for one out of range."""
    where = given(column)
    if len(where):
        numbers = np.array(select(column, where))
        if not all_in_range(numbers, allowed):
            raise ValueError(f"{field} is out of range")
        records[field][where] = numbers
    return where


def put_edges(records: Records, where: Where, lists: Sequence[list[str]]) -> None:
    """Put the XOR of named edges and their number. Raises ``ValueError`` where they repeat or XOR to zero."""
    if any(len(set(edges)) < len(edges) for edges in lists):
        raise ValueError("an edge is named twice")
    counts = np.array(list(map(len, lists)), np.int64)
    edges, has_edges = _ids(list(chain.from_iterable(lists))), counts > 0
    folds = np.zeros(len(lists), np.uint64)
    if len(edges):
        folds[has_edges] = np.bitwise_xor.reduceat(edges, (np.cumsum(counts) - counts)[has_edges])
    if not (edges.all() and folds[has_edges].all()):
        raise ValueError("an edge is zero, or edges XOR to zero")
    records["ack_val"][where], records["outstanding"][where] = folds, counts


def _ids(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Read ids of 16 characters each. Raises ``ValueError`` for other than lowercase hex digits."""
    joined = "".join(texts)
    raw = bytes.fromhex(joined)  # skips spaces and takes capitals
    if len(raw) != 8 * len(texts) or joined != joined.lower():
        raise ValueError("an id is not of lowercase hex digits")
    return np.frombuffer(raw, ">u8").astype(np.uint64)
