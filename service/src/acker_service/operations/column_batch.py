"""Knows the operations of a batch as columns: one array for all of them, so that none is taken up by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from acker_protocol.operations import Ack, Init, Operation
from acker_protocol.wire import packed
from numpy.typing import NDArray

RECORDS = np.dtype(
    [
        ("op", ">u2"),
        ("flags", ">u2"),
        ("outstanding", ">i4"),
        ("root_id", ">u8"),
        ("ack_val", ">u8"),
        ("edge_id", ">u8"),
        ("message_timeout_ms", ">u4"),
        ("progress_timeout_ms", ">u4"),
        ("spout_task", ">u4"),
        ("text", ">u4"),
        ("component", ">u4"),
    ]
)
"""The records of the packed form (`acker_protocol.wire.packed`), as one structured array."""

RAW_RECORD = np.dtype(f"V{RECORDS.itemsize}")
"""A record as plain bytes: many are copied fifteen times faster than field by field."""


@dataclass(frozen=True, eq=False)
class ColumnBatch:
    """Operations, checked where they came in: records, and the strings that they point to, counted from 1."""

    records: NDArray[np.void]
    strings: Sequence[str]

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def spout_tasks(self) -> frozenset[str]:
        """The spout tasks that the inits name."""
        return frozenset(self.strings[number - 1] for number in self.used_strings("spout_task"))

    def used_strings(self, *fields: str) -> list[int]:
        """Give the numbers of the strings that these fields point to, each once."""
        pointed = np.zeros(len(self.strings) + 1, bool)
        for field in fields:
            pointed[self.records[field]] = True
        pointed[0] = False
        numbers: list[int] = np.flatnonzero(pointed).tolist()
        return numbers


Operations = Sequence[Operation] | ColumnBatch
"""What came in together: messages, or columns of them. Everything holds for either form alike."""

_OPS = {Init: packed.INIT, Ack: packed.ACK}


def contains(operations: Operations, kind: type[Init] | type[Ack]) -> bool:
    """Say whether any operation is of this kind."""
    if isinstance(operations, ColumnBatch):
        return bool((operations.records["op"] == _OPS[kind]).any())
    return any(isinstance(message, kind) for message in operations)
