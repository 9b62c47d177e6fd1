"""Encodes the operations of a batch of columns, to the same bytes as `codec.encode_operation`."""

from collections.abc import Sequence
from operator import add

import numpy as np
from acker_protocol.wire import packed
from numpy.typing import NDArray

from acker_service.redis.codec import OPERATION_FIELDS, Indexes, Layout, OperationFlag, edge_hash, encode_text

_OPERATION = np.dtype([(name, f">{code}") for name, code in OPERATION_FIELDS])
_EDGE_HASH = int(OperationFlag.EDGE_HASH)  # numpy converts an enum's member three times slower
_FOLLOWED = (
    OperationFlag.MESSAGE_TIMEOUT | OperationFlag.PROGRESS_TIMEOUT | OperationFlag.TEXT | OperationFlag.COMPONENT
)
"""The flags of what only few operations have: timeouts of their own and texts."""


class ColumnEncoder:
    """Encodes operations at once: to one array if all have the same length, else to bytes for each.

    ``records`` have the layout of the packed form and point to ``strings`` by numbers from 1; ``spout_indexes`` gives
    the spout index for each of these numbers.
    """

    def __init__(
        self, records: NDArray[np.void], strings: Sequence[str], layout: Layout, spout_indexes: NDArray[np.uint32]
    ) -> None:
        fixed = _fixed_fields(records, layout, spout_indexes)
        flags, raw = fixed["flags"], fixed.view(f"V{_OPERATION.itemsize}")
        names_edge = flags & _EDGE_HASH != 0
        self._fixed: NDArray[np.void] | None = None
        self._variable: list[bytes] = []
        if (flags & _FOLLOWED).any() or names_edge.any() != names_edge.all():
            self._variable = list(map(add, raw.tolist(), _optional_fields(records, strings)))
        else:
            self._fixed = _with_edge_hashes(raw, records) if names_edge.any() else raw

    def encode(self, order: Indexes) -> bytes:
        """Give the operations of these indexes, in this order."""
        indexes = np.asarray(order, np.intp)
        if self._fixed is not None:
            return self._fixed[indexes].tobytes()
        return b"".join([self._variable[index] for index in indexes.tolist()])


def encode_plain(
    records: NDArray[np.void], roots: NDArray[np.uint64], layout: Layout, spout_indexes: NDArray[np.uint32]
) -> NDArray[np.void]:
    """Encode inits and acks without optional fields, each as the bytes of one element of the array.

    ``roots`` are the root ids of the records as integers of this machine; the other arguments are those of
    `ColumnEncoder`.
    """
    fixed = np.empty(len(records), _OPERATION)
    for field in ("op", "root_id", "ack_val", "outstanding"):
        fixed[field] = records[field]
    fixed["bucket"] = layout.bucket_of(roots)
    fixed["flags"] = records["flags"] ^ packed.OUTSTANDING_GIVEN  # no other flag is given
    fixed["spout_index"] = spout_indexes[records["spout_task"]]
    return fixed.view(f"V{_OPERATION.itemsize}")


def _fixed_fields(records: NDArray[np.void], layout: Layout, spout_indexes: NDArray[np.uint32]) -> NDArray[np.void]:
    fixed = np.empty(len(records), _OPERATION)
    for field in ("op", "root_id", "ack_val", "outstanding"):
        fixed[field] = records[field]
    fixed["bucket"] = layout.bucket_of(records["root_id"].astype(np.uint64))
    fixed["flags"] = _flags(records)
    fixed["spout_index"] = spout_indexes[records["spout_task"]]
    return fixed


def _flags(records: NDArray[np.void]) -> NDArray[np.uint8]:
    """Give the `OperationFlag` bits of each operation."""
    given = records["flags"]
    in_order_of_flags = (
        (records["op"] <= packed.ACK) & (given & packed.OUTSTANDING_GIVEN == 0),
        records["message_timeout_ms"] != 0,
        given & packed.PROGRESS_GIVEN != 0,
        records["text"] != 0,
        records["component"] != 0,
        records["edge_id"] != 0,
    )
    flags: NDArray[np.uint8] = np.packbits(np.stack(in_order_of_flags), axis=0, bitorder="little")[0]
    return flags


def _edge_hashes(records: NDArray[np.void]) -> NDArray[np.uint64]:
    return edge_hash(records["root_id"].astype(np.uint64), records["edge_id"].astype(np.uint64))


def _with_edge_hashes(fixed: NDArray[np.void], records: NDArray[np.void]) -> NDArray[np.void]:
    rows = np.empty(len(fixed), [("fixed", fixed.dtype), ("edge_hash", ">u8")])
    rows["fixed"], rows["edge_hash"] = fixed, _edge_hashes(records)
    return rows.view(f"V{rows.itemsize}")


def _optional_fields(records: NDArray[np.void], strings: Sequence[str]) -> list[bytes]:
    """Give what follows the fixed fields of each operation, in the order of its flags."""
    extras = [b""] * len(records)
    timeouts = {
        "message_timeout_ms": records["message_timeout_ms"],
        "progress_timeout_ms": records["flags"] & packed.PROGRESS_GIVEN,
    }
    for field, given in timeouts.items():
        where = np.flatnonzero(given)
        _append(extras, where, records[field][where].view("V4").tolist())
    texts = [b"", *map(encode_text, strings)]
    for field in ("text", "component"):
        where = np.flatnonzero(records[field])
        _append(extras, where, [texts[number] for number in records[field][where].tolist()])
    where = np.flatnonzero(records["edge_id"])
    _append(extras, where, _edge_hashes(records)[where].astype(">u8").view("V8").tolist())
    return extras


def _append(extras: list[bytes], where: NDArray[np.intp], encoded: list[bytes]) -> None:
    for index, raw in zip(where.tolist(), encoded, strict=True):
        extras[index] += raw
