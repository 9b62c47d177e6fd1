"""The batch of plain operations: inits and acks of a root id and an ack val, each on another root, and no more.

Most batches are such. A few calls of numpy split one by shard and encode it, whatever its size. It gives the same parts
and the same bytes as any other form of the same batch.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from acker_protocol.operations import Ack, Init
from acker_protocol.wire import fields, packed
from numpy.typing import NDArray

from acker_service.operations.batch import KINDS, STATES, Encode, KindStateCounts, ShardPart
from acker_service.operations.column_batch import ColumnBatch
from acker_service.redis.codec import Layout
from acker_service.redis.column_codec import encode_plain

MAX_STRINGS = 64
"""The most spout tasks of a batch of this form: their names are checked one by one."""


@dataclass(frozen=True, eq=False)
class PlainBatch(ColumnBatch):
    """A batch whose operations have a root id, an ack val, a spout task (inits), perhaps outstanding, and no more.

    The records are those of a `ColumnBatch`. `check` has to be called before anything else. Decoders make no batch of
    this form while ``enabled`` is false, which is for tests: they hold all forms equal.
    """

    enabled: ClassVar[bool] = True

    @cached_property
    def roots(self) -> NDArray[np.uint64]:
        """The root ids."""
        return self.records["root_id"].astype(np.uint64)

    @cached_property
    def spout_tasks(self) -> Set[str]:
        """The spout tasks that the inits name."""
        return frozenset(self.strings)

    def check(self) -> None:
        """Raise ``ValueError`` if the records are not plain, or a value exceeds the limits of the contract.

        The fields that plain operations lack have to be checked before: they are zero.
        """
        inits = self._inits
        if ((self.records["op"] == packed.ACK) == inits).any():
            raise ValueError("an operation is neither an init nor an ack")
        if (self.records["outstanding"][self.records["flags"] == 0]).any() or (self.records["flags"] > 1).any():
            raise ValueError("outstanding is not given, or a flag is unknown")
        self._check_spout_tasks()
        ordered = np.sort(self.roots)
        if not ordered[0] or (ordered[1:] == ordered[:-1]).any():
            raise ValueError("a root id is zero, or given twice")

    def contains(self, kind: type[Init] | type[Ack]) -> bool:
        """Say whether any operation is of this kind."""
        return bool(self.strings) if kind is Init else not self._is_all_inits

    def split(self, layout: Layout, *, capped: bool) -> list[ShardPart]:
        """Divide the batch among the shards."""
        if capped and self.strings and not self._is_all_inits:
            return super().split(layout, capped=capped)
        shards = layout.shard_of(self.roots).astype(np.uint8)
        order, start, parts = np.argsort(shards, kind="stable"), 0, list[ShardPart]()
        for shard, count in enumerate(np.bincount(shards).tolist()):
            if count:
                own = order[start : start + count]
                parts.append(ShardPart(shard=shard, request_order=own, apply_order=own))
                start += count
        parts.sort(key=lambda part: int(part.request_order[0]))
        return parts

    def encoder(self, layout: Layout, spout_indexes: Mapping[str, int]) -> Encode:
        """Encode all operations for Redis."""
        by_number = np.array([0, *(spout_indexes[name] for name in self.strings)], np.uint32)
        encoded = encode_plain(self.records, self.roots, layout, by_number)
        return lambda order: encoded.take(np.asarray(order, np.intp)).tobytes()

    def first_timeout_over(self, window_ms: int) -> int | None:  # noqa: ARG002 - no init has a timeout of its own
        """Give the index of the first init whose message timeout exceeds a dedupe window."""
        return None

    def count_by_kind_and_state(self, part: ShardPart, codes: str) -> KindStateCounts:
        """Count the operations of a part by kind and state."""
        if self.strings and not self._is_all_inits:
            return super().count_by_kind_and_state(part, codes)
        kind = KINDS[Init if self.strings else Ack]
        return [(kind, STATES[code], codes.count(code)) for code in sorted(set(codes))]

    @cached_property
    def _inits(self) -> NDArray[np.bool]:
        inits: NDArray[np.bool] = self.records["op"] == packed.INIT
        return inits

    @cached_property
    def _is_all_inits(self) -> bool:
        return bool(self._inits.all())

    def _check_spout_tasks(self) -> None:
        """Check that all inits, and they alone, name a spout task, and that every string is the name of one."""
        numbers = self.records["spout_task"]
        if ((numbers != 0) != self._inits).any() or numbers.max() > len(self.strings):
            raise ValueError("an init names no spout task, or another operation names one")
        if np.count_nonzero(np.bincount(numbers)[1:]) != len(self.strings):
            raise ValueError("a string is not used")
        if len(set(self.strings)) != len(self.strings):
            raise ValueError("a name is written twice")
        for name in self.strings:
            fields.name(name)
