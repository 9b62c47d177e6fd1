"""The batch of operations as columns: one array holds all of them, and no operation becomes an object."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire import fields, packed
from numpy.typing import NDArray

from acker_service.operations.batch import KINDS, STATES, Encode, KindStateCounts, OperationBatch, ShardPart
from acker_service.redis.codec import Layout
from acker_service.redis.column_codec import NOT_EXPLAINED, ColumnEncoder, Explained

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

_OPS: Mapping[type[Operation], int] = {
    Init: packed.INIT,
    Ack: packed.ACK,
    Fail: packed.FAIL,
    ResetTimeout: packed.RESET_TIMEOUT,
}
_KINDS = {op: KINDS[kind] for kind, op in _OPS.items()}
_CODES = 128
"""Codes are characters below this."""

_SHORT = fields.MESSAGE_ID_BYTES // 4
"""A text of at most this many characters is never too long in bytes."""

_TEXT_CHECKS = {packed.INIT: fields.message_id, packed.FAIL: fields.reason}


@dataclass(frozen=True, eq=False)
class ColumnBatch(OperationBatch):
    """A batch as columns: checked records, and the strings that they point to by numbers from 1.

    ``explained`` is what only explains roots: the records do not hold it.
    """

    records: NDArray[np.void]
    strings: Sequence[str]
    explained: Explained = NOT_EXPLAINED

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def spout_tasks(self) -> Set[str]:
        """The spout tasks that the inits name."""
        return frozenset(self.strings[number - 1] for number in self.used_strings("spout_task"))

    def spout_tasks_of(self, inits: Iterable[int]) -> Set[str]:
        """The spout tasks that the inits of these indexes name."""
        numbers = set(self.records["spout_task"][np.fromiter(inits, np.intp)].tolist())
        return {self.strings[number - 1] for number in numbers}

    def check(self) -> None:
        """Raise ``ValueError`` if a value exceeds the limits of the contract; the reference codec says which one."""
        if len(self):
            self._check_numbers()
            self._check_names()
            self._check_texts()

    def used_strings(self, *pointers: str) -> list[int]:
        """Give the numbers of the strings that these fields point to, each once."""
        is_used = np.zeros(len(self.strings) + 1, bool)
        for pointer in pointers:
            is_used[self.records[pointer]] = True
        is_used[0] = False
        numbers: list[int] = np.flatnonzero(is_used).tolist()
        return numbers

    def contains(self, kind: type[Init] | type[Ack]) -> bool:
        """Say whether any operation is of this kind."""
        return bool((self.records["op"] == _OPS[kind]).any())

    def split(self, layout: Layout, *, capped: bool) -> list[ShardPart]:
        """Divide the batch among the shards."""
        if not len(self):
            return []
        roots = self.records["root_id"].astype(np.uint64)
        order = _group_by_root(roots, self.records["op"] == packed.INIT if capped else None)
        shards = layout.shard_of(roots[order]).astype(np.uint8)  # at most 128; small numbers are sorted fastest
        by_shard = np.argsort(shards, kind="stable")
        pieces = np.split(by_shard, _starts(shards[by_shard])[1:])
        pieces.sort(key=lambda piece: int(piece[0]))
        return [_part(int(shards[piece[0]]), order[piece]) for piece in pieces]

    @property
    def is_explained(self) -> bool:
        """Whether operations have what only explains roots."""
        return bool(self.explained)

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
        for number in self.used_strings("spout_task"):
            by_number[number] = spout_indexes[self.strings[number - 1]]
        explained = self.explained if is_explained else NOT_EXPLAINED
        if is_explained and trace_threshold:
            explained = explained.with_sample(self.records["root_id"].astype(np.uint64), trace_threshold)
        return ColumnEncoder(self.records, self.strings, layout, by_number, explained).encode

    def first_timeout_over(self, window_ms: int) -> int | None:
        """Give the index of the first init whose message timeout exceeds a dedupe window."""
        if not window_ms:
            return None
        return next(iter(np.flatnonzero(self.records["message_timeout_ms"] > window_ms).tolist()), None)

    def count_by_kind_and_state(self, part: ShardPart, codes: str) -> KindStateCounts:
        """Count the operations of a part by kind and state."""
        ops = self.records["op"][np.asarray(part.apply_order, np.intp)].astype(np.intp)
        counts = np.bincount(ops * _CODES + np.frombuffer(codes.encode(), np.uint8))
        for combined in np.flatnonzero(counts).tolist():
            op, code = divmod(combined, _CODES)
            yield _KINDS[op], STATES[chr(code)], int(counts[combined])

    def _check_numbers(self) -> None:
        records = self.records
        if not records["root_id"].all():
            raise ValueError("a root id is zero")
        if max(records[pointer].max() for pointer in ("spout_task", "text", "component")) > len(self.strings):
            raise ValueError("a string is not in the table")
        for field in ("message_timeout_ms", "progress_timeout_ms"):
            if not all_in_range(records[field][records[field] != 0], fields.TIMEOUT_MS):
                raise ValueError("a timeout is out of range")

    def _check_names(self) -> None:
        if not self.records["spout_task"][self.records["op"] == packed.INIT].all():
            raise ValueError("an init names no spout task")
        for number in self.used_strings("spout_task", "component"):
            fields.name(self.strings[number - 1])

    def _check_texts(self) -> None:
        if max(map(len, self.strings), default=0) <= _SHORT:
            return
        for op, check_text in _TEXT_CHECKS.items():
            for number in set(self.records["text"][self.records["op"] == op].tolist()) - {0}:
                check_text(self.strings[number - 1])


def all_in_range(numbers: NDArray[Any], allowed: range) -> bool:
    """Say whether all numbers are in a range. (``in`` would search it step by step for a number of numpy's.)"""
    return bool((numbers >= allowed.start).all() and (numbers < allowed.stop).all())


def _part(shard: int, order: NDArray[np.intp]) -> ShardPart:
    """Make a part; two equal orders are one object."""
    by_index = np.sort(order)
    return ShardPart(
        shard=shard, request_order=by_index, apply_order=by_index if np.array_equal(by_index, order) else order
    )


def _group_by_root(roots: NDArray[np.uint64], inits: NDArray[np.bool] | None) -> NDArray[np.intp]:
    """Order the indexes by root; ``inits`` marks the inits where pending roots are capped."""
    count = len(roots)
    if inits is None and len(_starts(np.sort(roots))) == count:
        return np.arange(count)
    by_root = np.argsort(roots, kind="stable")
    starts = _starts(roots[by_root])
    ranks = by_root[starts]
    if inits is not None:
        first_inits = np.minimum.reduceat(np.where(inits, np.arange(count), count)[by_root], starts)
        ranks = np.where(first_inits == count, ranks, first_inits + count)
    positions = np.argsort(np.argsort(ranks))
    return by_root[np.argsort(np.repeat(positions, np.diff(starts, append=count)), kind="stable")]


def _starts(values: NDArray[Any]) -> NDArray[np.intp]:
    """Give where each run of equal values begins."""
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
