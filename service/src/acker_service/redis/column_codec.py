"""Knows how columns of operations are written as the bytes that go to Redis: the same that `packing.pack` writes."""

from collections.abc import Mapping
from operator import add

import numpy as np
from acker_protocol.wire import packed
from numpy.typing import NDArray

from acker_service.operations.column_batch import ColumnBatch
from acker_service.operations.routing import Indexes
from acker_service.redis.codec import Layout, edge_hash

_FIXED = np.dtype(
    [
        ("op", "u1"),
        ("bucket", ">u4"),
        ("root_id", ">u8"),
        ("ack_val", ">u8"),
        ("outstanding", ">i4"),
        ("flags", "u1"),
        ("spout", ">u4"),
    ]
)
_OPTIONAL = 2 | 4 | 8 | 16
"""The flags of what only few operations have: timeouts of their own and texts."""
_EDGE_HASH = 32


class ColumnEncoder:
    """The operations of a request, a row each: one array where all rows are of one length, else bytes."""

    def __init__(self, columns: ColumnBatch, layout: Layout, indexes: Mapping[str, int]) -> None:
        heads = _fixed_fields(columns, layout, indexes)
        flags = heads["flags"]
        paired = flags & _EDGE_HASH != 0
        self._fixed: NDArray[np.void] | None = None
        self._variable: list[bytes] = []
        raw = heads.view(f"V{_FIXED.itemsize}")
        if (flags & _OPTIONAL).any() or paired.any() != paired.all():
            self._variable = list(map(add, raw.tolist(), _optional_fields(columns)))
        else:
            self._fixed = _with_edge_hashes(raw, columns.records) if paired.any() else raw

    def encode(self, order: Indexes) -> bytes:
        """Give these rows, in this order."""
        if self._fixed is not None:
            return self._fixed[order].tobytes()
        return b"".join([self._variable[index] for index in np.asarray(order).tolist()])


def _fixed_fields(columns: ColumnBatch, layout: Layout, indexes: Mapping[str, int]) -> NDArray[np.void]:
    records = columns.records
    heads = np.empty(len(records), _FIXED)
    for field in ("op", "root_id", "ack_val", "outstanding"):
        heads[field] = records[field]
    roots = records["root_id"].astype(np.uint64)
    heads["bucket"] = roots // np.uint64(layout.shards) % np.uint64(layout.buckets)
    heads["flags"] = _flags(records)
    spouts = np.zeros(len(columns.strings) + 1, np.uint32)
    for number in columns.used_strings("spout_task"):
        spouts[number] = indexes[columns.strings[number - 1]]
    heads["spout"] = spouts[records["spout_task"]]
    return heads


def _flags(records: NDArray[np.void]) -> NDArray[np.uint8]:
    given = records["flags"]
    bits = (
        (records["op"] <= packed.ACK) & (given & packed.OUTSTANDING_GIVEN == 0),
        records["message_timeout_ms"] != 0,
        given & packed.PROGRESS_GIVEN != 0,
        records["text"] != 0,
        records["component"] != 0,
        records["edge_id"] != 0,
    )
    flags: NDArray[np.uint8] = np.packbits(np.stack(bits), axis=0, bitorder="little")[0]
    return flags


def _edge_hashes(records: NDArray[np.void]) -> NDArray[np.uint64]:
    return edge_hash(records["root_id"].astype(np.uint64), records["edge_id"].astype(np.uint64))


def _with_edge_hashes(heads: NDArray[np.void], records: NDArray[np.void]) -> NDArray[np.void]:
    rows = np.empty(len(heads), [("head", heads.dtype), ("pair", ">u8")])
    rows["head"], rows["pair"] = heads, _edge_hashes(records)
    return rows.view(f"V{rows.itemsize}")


def _optional_fields(columns: ColumnBatch) -> list[bytes]:
    """Give what follows the head in each row, in the order of its flags."""
    records, tails = columns.records, [b""] * len(columns)
    own = records["message_timeout_ms"], records["flags"] & packed.PROGRESS_GIVEN
    for field, given in zip(("message_timeout_ms", "progress_timeout_ms"), own, strict=True):
        where = np.flatnonzero(given)
        _append(tails, where, records[field][where].view("V4").tolist())
    texts = [b"", *map(_text, columns.strings)]
    for field in ("text", "component"):
        where = np.flatnonzero(records[field])
        _append(tails, where, [texts[number] for number in records[field][where].tolist()])
    where = np.flatnonzero(records["edge_id"])
    _append(tails, where, _edge_hashes(records)[where].astype(">u8").view("V8").tolist())
    return tails


def _text(string: str) -> bytes:
    raw = string.encode()
    return len(raw).to_bytes(2, "big") + raw


def _append(tails: list[bytes], where: NDArray[np.intp], raws: list[bytes]) -> None:
    for index, raw in zip(where.tolist(), raws, strict=True):
        tails[index] += raw
