"""The batch of plain operations: inits and acks in the compact form, without timeouts of their own.

Most batches are such. A few calls of numpy split one by shard and encode it, whatever its size. It gives the same parts
and the same bytes as any other form of the same batch.
"""

from collections.abc import Mapping
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
from acker_service.redis.column_codec import NOT_EXPLAINED, EncodedStrings, PlainRows

MAX_NAMES = 64
"""The most spout tasks and components of a batch of this form: their names are checked one by one."""
MAX_TEXT_BYTES = 128
"""The most bytes of a message id of this form: all operations take as much memory as the longest one."""


@dataclass(frozen=True, eq=False)
class PlainBatch(ColumnBatch):
    """A batch of inits and acks of a root id, an ack val, perhaps outstanding, component, message id or edge id.

    The records are those of a `ColumnBatch`. `check` has to be called before anything else. Decoders make no batch of
    this form while ``enabled`` is false, which is for tests: they hold all forms equal.
    """

    enabled: ClassVar[bool] = True

    strings: EncodedStrings

    @cached_property
    def roots(self) -> NDArray[np.uint64]:
        """The root ids."""
        return self.records["root_id"].astype(np.uint64)

    def check(self) -> None:
        """Raise ``ValueError`` if the records are not plain, or a value exceeds the limits of the contract.

        The timeouts, which plain operations lack, have to be checked before: they are zero.
        """
        records, inits = self.records, self._inits
        if ((records["op"] == packed.ACK) == inits).any():
            raise ValueError("an operation is neither an init nor an ack")
        if (records["outstanding"][records["flags"] == 0]).any() or (records["flags"] > 1).any():
            raise ValueError("outstanding is not given, or a flag is unknown")
        if not self.roots.all():
            raise ValueError("a root id is zero")
        if ((records["spout_task"] != 0) != inits).any():
            raise ValueError("an init names no spout task, or another operation names one")
        if (records["text"][~inits]).any() or (records["edge_id"][inits]).any():
            raise ValueError("an ack has a message id, or an init an edge id")
        if max(records[pointer].max() for pointer in ("spout_task", "text", "component")) > len(self.strings):
            raise ValueError("a string is not in the table")
        if self.strings.lengths[records["text"]].max() > MAX_TEXT_BYTES:
            raise ValueError("a message id is long")
        self._check_names()

    def split(self, layout: Layout, *, capped: bool) -> list[ShardPart]:
        """Divide the batch among the shards."""
        if self._has_repeated_roots or (capped and self.contains(Init) and not self._is_all_inits):
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

    def contains(self, kind: type[Init] | type[Ack]) -> bool:
        """Say whether any operation is of this kind."""
        return self._has_inits if kind is Init else not self._is_all_inits

    def encoder(
        self,
        layout: Layout,
        spout_indexes: Mapping[str, int],
        *,
        is_explained: bool = True,
        trace_threshold: int = 0,
    ) -> Encode:
        """Encode all operations for Redis."""
        by_number = np.zeros(len(self.strings) + 1, np.uint32)
        for name, number in self._spout_numbers:
            by_number[number] = spout_indexes[name]
        explained = self.explained if is_explained else NOT_EXPLAINED
        if is_explained and trace_threshold:
            explained = explained.with_sample(self.roots, trace_threshold)
        return self._rows(layout).encode(by_number[self.records["spout_task"]], explained)

    def first_timeout_over(self, window_ms: int) -> int | None:  # noqa: ARG002 - no init has a timeout of its own
        """Give the index of the first init whose message timeout exceeds a dedupe window."""
        return None

    def count_by_kind_and_state(self, part: ShardPart, codes: str) -> KindStateCounts:
        """Count the operations of a part by kind and state."""
        if self._has_inits and not self._is_all_inits:
            return super().count_by_kind_and_state(part, codes)
        kind = KINDS[Init if self._has_inits else Ack]
        return [(kind, STATES[code], codes.count(code)) for code in sorted(set(codes))]

    @cached_property
    def _inits(self) -> NDArray[np.bool]:
        inits: NDArray[np.bool] = self.records["op"] == packed.INIT
        return inits

    @cached_property
    def _is_all_inits(self) -> bool:
        return bool(self._inits.all())

    @cached_property
    def _has_inits(self) -> bool:
        return bool(self._inits.any())

    @cached_property
    def _has_repeated_roots(self) -> bool:
        ordered = np.sort(self.roots)
        return bool((ordered[1:] == ordered[:-1]).any())

    @cached_property
    def _spout_numbers(self) -> list[tuple[str, int]]:
        """The spout tasks that the inits name, each with the number of its string."""
        return [(self.strings[number - 1], number) for number in self.used_strings("spout_task")]

    def _check_names(self) -> None:
        numbers = self.used_strings("spout_task", "component")
        if len(numbers) > MAX_NAMES:
            raise ValueError("the batch has many names")
        for number in numbers:
            fields.name(self.strings[number - 1])

    @cached_property
    def _rows_by_layout(self) -> dict[Layout, PlainRows]:
        return {}

    def _rows(self, layout: Layout) -> PlainRows:
        """Encode all but the indexes of spout tasks, once: a fingerprint needs them with others."""
        rows = self._rows_by_layout.get(layout)
        if rows is None:
            rows = self._rows_by_layout[layout] = PlainRows(self.records, self.strings, self.roots, layout)
        return rows
