"""The stamp of a topology: the version of its configuration that every call on a shard names."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

R = TypeVar("R")

_INCARNATION_DIGITS = 16
_LENGTH = 26
_TOMBSTONE = "x"


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """An incarnation and a version of a topology, as Redis keeps them; a later stamp is greater.

    ``text`` is 16 hex digits (incarnation) and 10 decimal digits (version); an ``x`` behind them makes it a tombstone.
    """

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def incarnation(self) -> str:
        """The life of the topology: one that is created again under the same name has a higher incarnation."""
        return self.text[:_INCARNATION_DIGITS]

    @property
    def is_tombstone(self) -> bool:
        """Whether the shard belonged to a topology that was deleted."""
        return self.text.endswith(_TOMBSTONE)

    def is_newer_than(self, other: "Stamp") -> bool:
        """Whether this stamp is above another one; a tombstone counts as the stamp it was written over."""
        return self.text[:_LENGTH] > other.text[:_LENGTH]


class StaleStamp(Exception):
    """A shard refused a call because of its stamp and changed nothing.

    ``key`` is the key that holds the shard's own stamp; ``stamp`` is that stamp, None if the shard has none.
    """

    def __init__(self, key: str, stamp: Stamp | None) -> None:
        super().__init__(key, stamp)
        self.key = key
        self.stamp = stamp


def decode_stamp(raw: bytes | None) -> Stamp | None:
    """Read a stamp from Redis; None if there is none."""
    return Stamp(raw.decode()) if raw else None


def unwrap(key: str, decode: Callable[[list[Any]], R], reply: list[Any]) -> R:
    """Decode what follows the leading ``ok`` of a shard's reply. Raises `StaleStamp` if the shard refused the call."""
    if reply[0] == b"stale":
        raise StaleStamp(key, decode_stamp(reply[1]))
    return decode(reply[1:])
