"""Reads values out of the bytes of a fuzzer, so that a small change of the bytes is a small change of what is tried."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Reader:
    """Values out of bytes, one after the other; zeros and the first choice once the bytes are used up."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def __bool__(self) -> bool:
        """Whether any bytes are left."""
        return self._at < len(self._data)

    def take(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        self._at += count
        return self._data[self._at - count : self._at]

    def rest(self) -> bytes:
        """Return all bytes that are left."""
        return self.take(len(self._data))

    def number(self, size: int = 1) -> int:
        """Return a number of so many bytes."""
        return int.from_bytes(self.take(size), "big")

    def signed(self) -> int:
        """Return a number of four bytes, with a sign."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def choice(self, values: Sequence[T]) -> T:
        """Return one of these."""
        return values[self.number() % len(values)]

    def text(self) -> str:
        """Return a text of up to 255 bytes; what is not UTF-8 becomes surrogates."""
        return self.take(self.number()).decode(errors="surrogateescape")
