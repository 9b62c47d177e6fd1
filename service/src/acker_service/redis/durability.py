"""Durability: what has to happen to a write before it is answered."""

import re
from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """What a write waits for: nothing more, the disk of the primary, or replicas."""

    RELAXED = "relaxed"
    FSYNC = "fsync"
    REPLICA = "replica"


@dataclass(frozen=True, slots=True, kw_only=True)
class Durability:
    """When a write counts as done. ``replicas`` is how many replicas must have it; 0 in the other modes."""

    mode: Mode = Mode.RELAXED
    replicas: int = 0

    def __str__(self) -> str:
        """Write it as `read_durability` reads it."""
        return f"{self.mode}:{self.replicas}" if self.mode is Mode.REPLICA else str(self.mode)


RELAXED = Durability()
"""As Redis is set up."""


def read_durability(text: str) -> Durability:
    """Read ``relaxed``, ``fsync`` or ``replica:n``. Raises `ValueError`."""
    if text in (Mode.RELAXED, Mode.FSYNC):
        return Durability(mode=Mode(text))
    found = re.fullmatch(r"replica:([1-9][0-9]?)", text)
    if found is None:
        raise ValueError("durability is relaxed, fsync or replica:n, with n from 1 to 99")
    return Durability(mode=Mode.REPLICA, replicas=int(found[1]))
