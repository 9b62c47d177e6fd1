"""The batch of operations as columns: one array holds all of them, and no operation becomes an object.

A few calls of numpy split a batch by shard and encode it, whatever its size.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire import fields, packed
from numpy.typing import NDArray

from acker_service.operations.batch import KINDS, STATES, Encode, KindStateCounts, OperationBatch, ShardPart
from acker_service.redis.codec import Layout
from acker_service.redis.column_codec import NO_TRACE_FIELDS, EncodedRows, EncodedStrings, Overview, TraceFields

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
"""The records of the packed form (`acker_protocol.wire.packed`), as one structured array; the reason of a fail is its
``text``.
"""

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

_TEXT_CHECKS = {packed.INIT: fields.message_id, packed.FAIL: fields.reason}


@dataclass(frozen=True, eq=False)
class ColumnBatch(OperationBatch):
    """A batch as columns: checked records, and the strings that they point to by numbers from 1.

    ``trace_fields`` is what only explains roots, and ``traceparents`` are those of inits by index, encoded: the records
    do not hold them.
    """

    records: NDArray[np.void]
    strings: EncodedStrings
    trace_fields: TraceFields = NO_TRACE_FIELDS
    traceparents: Mapping[int, bytes] = field(default_factory=dict)
    _rows_by_layout: dict[Layout, EncodedRows] = field(init=False, repr=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.records)

    @cached_property
    def overview(self) -> Overview:
        """Which fields any record has, and whether all are of one kind."""
        return Overview.of(self.records)

    @cached_property
    def roots(self) -> NDArray[np.uint64]:
        """The root ids."""
        return self.records["root_id"].astype(np.uint64)

    @cached_property
    def spout_tasks(self) -> Set[str]:
        """The spout tasks that the inits name."""
        return frozenset(self._names_by_number.values()) if self.has_inits else frozenset()

    def spout_tasks_of(self, inits: Iterable[int]) -> Set[str]:
        """The spout tasks that the inits of these indexes name."""
        numbers = set(self.records["spout_task"][np.fromiter(inits, np.intp)].tolist())
        return {self.strings[number - 1] for number in numbers}

    def check(self) -> None:
        """Raise ``ValueError`` if a value exceeds the limits of the contract; the reference codec says which one.

        Each operation has no other fields than those of its kind, and points to no string beyond the last one.
        """
        if len(self):
            self._check_numbers()
            self._check_names()
            self._check_texts()

    def used_strings(self, *pointers: str) -> list[int]:
        """Return the numbers of the strings that these fields point to, each once."""
        given = [pointer for pointer in pointers if self.overview.bits[pointer]]
        if not given:
            return []
        is_used = np.zeros(len(self.strings) + 1, bool)
        for pointer in given:
            is_used[self.records[pointer]] = True
        is_used[0] = False
        numbers: list[int] = np.flatnonzero(is_used).tolist()
        return numbers

    @property
    def has_inits(self) -> bool:
        """Whether any operation is an init."""
        return self._counts[packed.INIT] > 0

    @property
    def ends_edges(self) -> bool:
        """Whether any operation is an ack, or a fail that ends an edge."""
        if self._counts[packed.ACK] > 0 or not self._counts[packed.FAIL]:
            return self._counts[packed.ACK] > 0
        fails = self.records["flags"][self.records["op"] == packed.FAIL]
        return bool((fails & packed.ENDS_EDGE).any())

    def split(self, layout: Layout, *, capped: bool) -> list[ShardPart]:
        """Divide the batch among the shards."""
        order = self._order(capped=capped)
        roots = self.roots if order is None else self.roots[order]
        shards = layout.shard_of(roots).astype(np.uint8)  # at most 128; small numbers are sorted fastest
        by_shard, start, parts = shards.argsort(kind="stable"), 0, list[tuple[int, ShardPart]]()
        for shard, count in enumerate(np.bincount(shards).tolist()):
            if count:
                own = by_shard[start : start + count]
                parts.append((int(own[0]), _part(shard, own, order)))
                start += count
        return [part for _, part in sorted(parts, key=lambda each: each[0])]

    @property
    def has_trace_fields(self) -> bool:
        """Whether operations have what only explains roots."""
        return bool(self.trace_fields)

    def encoder(
        self,
        layout: Layout,
        spout_indexes: Mapping[str, int],
        *,
        with_trace_fields: bool = True,
        trace_threshold: int = 0,
    ) -> Encode:
        """Encode all operations for Redis."""
        trace_fields = self.trace_fields if with_trace_fields else NO_TRACE_FIELDS
        if with_trace_fields and trace_threshold:
            trace_fields = trace_fields.with_sample(self.roots, trace_threshold)
        return self._rows(layout).encode(self._indexes(spout_indexes), trace_fields)

    def first_timeout_over(self, window_ms: int) -> int | None:
        """Return the index of the first init whose message timeout exceeds a dedupe window."""
        if not window_ms or not self.has_inits:
            return None
        return next(iter(np.flatnonzero(self.records["message_timeout_ms"] > window_ms).tolist()), None)

    def count_by_kind_and_state(self, parts: Sequence[tuple[ShardPart, str]]) -> KindStateCounts:
        """Count the operations of parts by kind and state."""
        kinds, codes = [op for op, count in enumerate(self._counts) if count], "".join([own for _, own in parts])
        if len(kinds) == 1:
            return [(_KINDS[kinds[0]], STATES[code], codes.count(code)) for code in sorted(set(codes))]
        order = np.concatenate([np.asarray(part.apply_order, np.intp) for part, _ in parts])
        ops = self.records["op"][order].astype(np.intp)
        counts = np.bincount(ops * _CODES + np.frombuffer(codes.encode(), np.uint8))
        combined = ((*divmod(each, _CODES), int(counts[each])) for each in np.flatnonzero(counts).tolist())
        return [(_KINDS[op], STATES[chr(code)], count) for op, code, count in combined]

    @cached_property
    def _counts(self) -> list[int]:
        """How many operations there are of each kind."""
        if self.overview.is_one_kind:
            return [len(self) if op == self.overview.bits["op"] else 0 for op in range(max(_KINDS) + 1)]
        counts: list[int] = np.bincount(self.records["op"], minlength=max(_KINDS) + 1).tolist()
        return counts

    @cached_property
    def _names_by_number(self) -> dict[int, str]:
        """The spout tasks that the inits name, by the numbers of their strings, of which some may be equal."""
        return {number: self.strings[number - 1] for number in self.used_strings("spout_task")}

    def _indexes(self, spout_indexes: Mapping[str, int]) -> NDArray[np.uint32] | int:
        """Return the spout index of each operation, 0 where it is no init."""
        if not self.has_inits:
            return 0
        by_number = np.zeros(len(self.strings) + 1, np.uint32)
        for number, name in self._names_by_number.items():
            by_number[number] = spout_indexes[name]
        return by_number.take(self.records["spout_task"].astype(np.intp))

    def _order(self, *, capped: bool) -> NDArray[np.intp] | None:
        """Order the indexes by root; None: as they are."""
        limited = capped and self._counts[packed.INIT] not in {0, len(self)}
        ordered = np.sort(self.roots)
        if not limited and (ordered[1:] != ordered[:-1]).all():
            return None
        return _group_by_root(self.roots, self.records["op"] == packed.INIT if capped else None)

    def _check_numbers(self) -> None:
        records, bits, inits = self.records, self.overview.bits, self._counts[packed.INIT]
        if np.count_nonzero(self.roots) < len(self):
            raise ValueError("a root id is zero")
        if (np.count_nonzero(records["spout_task"]) if bits["spout_task"] else 0) != inits:
            raise ValueError("an init names no spout task")
        for name in ("message_timeout_ms", "progress_timeout_ms"):
            if bits[name] and not all_in_range(records[name][records[name] != 0], fields.TIMEOUT_MS):
                raise ValueError("a timeout is out of range")

    def _check_names(self) -> None:
        for number in self.used_strings("spout_task", "component"):
            fields.name(self.strings[number - 1])

    def _check_texts(self) -> None:
        # a character has a byte or more
        if not self.overview.bits["text"] or self.strings.lengths.max() <= fields.MESSAGE_ID_BYTES:
            return
        for op, check_text in _TEXT_CHECKS.items():
            for number in set(self.records["text"][self.records["op"] == op].tolist()) - {0}:
                check_text(self.strings[number - 1])

    def _rows(self, layout: Layout) -> EncodedRows:
        """Encode all but the indexes of spout tasks, once: a fingerprint needs them with others."""
        rows = self._rows_by_layout.get(layout)
        if rows is None:
            rows = EncodedRows(self.records, self.overview, self.strings, self.roots, self.traceparents, layout)
            self._rows_by_layout[layout] = rows
        return rows


def all_in_range(numbers: NDArray[Any], allowed: range) -> bool:
    """Return whether all numbers are in a range. (``in`` would search it step by step for a number of numpy's.)"""
    return bool((numbers >= allowed.start).all() and (numbers < allowed.stop).all())


def _part(shard: int, positions: NDArray[np.intp], order: NDArray[np.intp] | None) -> ShardPart:
    """Make a part of the operations at some positions of an order; two equal orders are one object."""
    if order is None:
        return ShardPart(shard=shard, request_order=positions, apply_order=positions)
    own = order[positions]
    by_index = np.sort(own)
    # rule: equal orders are one object
    apply_order = by_index if np.array_equal(by_index, own) else own
    return ShardPart(shard=shard, request_order=by_index, apply_order=apply_order)


def _group_by_root(roots: NDArray[np.uint64], inits: NDArray[np.bool] | None) -> NDArray[np.intp]:
    """Order the indexes by root; ``inits`` marks the inits where pending roots are capped."""
    count = len(roots)
    by_root = np.argsort(roots, kind="stable")
    starts = _starts(roots[by_root])
    ranks = by_root[starts]
    if inits is not None:
        first_inits = np.minimum.reduceat(np.where(inits, np.arange(count), count)[by_root], starts)
        ranks = np.where(first_inits == count, ranks, first_inits + count)
    positions = np.argsort(np.argsort(ranks))
    return by_root[np.argsort(np.repeat(positions, np.diff(starts, append=count)), kind="stable")]


def _starts(values: NDArray[Any]) -> NDArray[np.intp]:
    """Return where each run of equal values begins."""
    return np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
