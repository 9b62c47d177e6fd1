"""Encodes the operations of a batch of columns, to the same bytes as `codec.encode_operation`."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import Any

import numpy as np
from acker_protocol import tracing
from acker_protocol.wire import packed
from numpy.typing import NDArray

from acker_service.redis.codec import OPERATION_FIELDS, Indexes, Layout, OperationFlag, edge_hash, encode_text

_OPERATION = np.dtype([(name, f">{code}") for name, code in OPERATION_FIELDS])
_EDGE_HASH = int(OperationFlag.EDGE_HASH)  # numpy converts an enum's member three times slower
_TEXT = int(OperationFlag.TEXT)
_COMPONENT = int(OperationFlag.COMPONENT)
_NAMES = int(OperationFlag.NAMES)
_TRACED = int(OperationFlag.TRACED)
_SAMPLE_MULTIPLIER = np.uint32(tracing.SAMPLE_MULTIPLIER)
_EDGE_HASH_BYTES = 8
_LENGTH_BYTES = 2
_FOLLOWED = (
    OperationFlag.MESSAGE_TIMEOUT | OperationFlag.PROGRESS_TIMEOUT | OperationFlag.TEXT | OperationFlag.COMPONENT
)
"""The flags of what only few operations have: timeouts of their own and texts."""


class EncodedStrings(Sequence[str]):
    """The strings of a batch, one after the other in UTF-8; only those that are looked at are decoded.

    ``lengths`` are their sizes in bytes. Operations point to them by numbers from 1; 0 is none.
    """

    def __init__(self, raw: bytes, lengths: NDArray[Any]) -> None:
        self.raw = raw
        self.lengths = np.zeros(len(lengths) + 1, np.intp)
        self.lengths[1:] = lengths
        self._ends = np.cumsum(self.lengths)

    def __len__(self) -> int:
        return len(self.lengths) - 1

    def __getitem__(self, index: Any) -> Any:
        """Decode the string of an index, which is its number less one."""
        end = int(self._ends[index + 1])
        return self.raw[end - int(self.lengths[index + 1]) : end].decode()

    def encoded_sizes(self, numbers: NDArray[Any]) -> NDArray[np.intp]:
        """Give how many bytes the strings of these numbers take in Redis, with their length; none takes none."""
        return np.where(numbers, self.lengths[numbers] + _LENGTH_BYTES, 0)

    def encoded(self, numbers: NDArray[Any], width: int) -> NDArray[np.void]:
        """Encode the strings of these numbers for Redis, each in an element of a width that none exceeds."""
        table = np.zeros((len(self.lengths), width), np.uint8)
        at = (self._ends - self.lengths)[:, np.newaxis] + np.arange(width - _LENGTH_BYTES)
        table[:, :_LENGTH_BYTES] = self.lengths.astype(">u2")[:, np.newaxis].view(np.uint8)
        if self.raw:
            table[:, _LENGTH_BYTES:] = np.frombuffer(self.raw, np.uint8).take(at, mode="clip")
        return table.view(f"V{width}")[:, 0].take(numbers)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What only explains roots: the encoded names of edges by row, and the rows of which the root is traced."""

    names: Mapping[int, bytes] = dataclasses.field(default_factory=dict)
    traced: Sequence[int] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.traced)

    def with_sample(self, roots: NDArray[np.uint64], threshold: int) -> "Explained":
        """Add the rows whose root is in the sample; ``roots`` are the root ids of all rows, one behind the other."""
        halves = roots.view(np.uint32)
        hashes = (halves[::2] ^ halves[1::2]) * _SAMPLE_MULTIPLIER  # as `tracing.sample`, in 32 bits
        # rule: a share is chosen by the id
        sampled = (hashes < threshold).nonzero()[0].tolist()
        return Explained(names=self.names, traced=[*self.traced, *sampled]) if sampled else self

    def set_flags(self, flags: NDArray[np.uint8]) -> None:
        """Set the flags of these rows."""
        if self.names:
            flags[list(self.names)] |= _NAMES
        if self.traced:
            flags[list(self.traced)] |= _TRACED

    def inserted(self, raw: bytes, indexes: NDArray[np.intp], sizes: NDArray[np.intp]) -> bytes:
        """Insert the names behind the rows of these indexes, which are ``raw`` and have these sizes."""
        pieces, start, ends = list[bytes](), 0, np.cumsum(sizes)
        for position in np.flatnonzero(np.isin(indexes, list(self.names))).tolist():
            end = int(ends[position])
            pieces += (raw[start:end], self.names[int(indexes[position])])
            start = end
        return b"".join((*pieces, raw[start:]))


NOT_EXPLAINED = Explained()


class ColumnEncoder:
    """Encodes operations at once: to one array if all have the same length, else to bytes for each.

    ``records`` have the layout of the packed form and point to ``strings`` by numbers from 1; ``spout_indexes`` gives
    the spout index for each of these numbers. ``explained`` is what only explains roots.
    """

    def __init__(
        self,
        records: NDArray[np.void],
        strings: Sequence[str],
        layout: Layout,
        spout_indexes: NDArray[np.uint32],
        explained: "Explained",
    ) -> None:
        fixed = _fixed_fields(records, layout, spout_indexes)
        explained.set_flags(fixed["flags"])
        flags, raw = fixed["flags"], fixed.view(f"V{_OPERATION.itemsize}")
        names_edge = flags & _EDGE_HASH != 0
        self._fixed: NDArray[np.void] | None = None
        self._variable: list[bytes] = []
        if explained.names or (flags & _FOLLOWED).any() or names_edge.any() != names_edge.all():
            extras = _optional_fields(records, strings)
            for row, names in explained.names.items():
                extras[row] += names
            self._variable = list(map(add, raw.tolist(), extras))
        else:
            self._fixed = _with_edge_hashes(raw, records) if names_edge.any() else raw

    def encode(self, order: Indexes) -> bytes:
        """Give the operations of these indexes, in this order."""
        indexes = np.asarray(order, np.intp)
        if self._fixed is not None:
            return self._fixed[indexes].tobytes()
        return b"".join([self._variable[index] for index in indexes.tolist()])


class PlainRows:
    """Plain inits and acks, each encoded as a row of bytes that is as long as the longest one.

    ``records`` have the layout of the packed form and point to ``strings``; ``roots`` are their root ids as integers of
    this machine. Only the index of an init's spout task is missing.
    """

    def __init__(
        self, records: NDArray[np.void], strings: EncodedStrings, roots: NDArray[np.uint64], layout: Layout
    ) -> None:
        texts, components, edges = records["text"], records["component"], records["edge_id"].astype(np.uint64)
        sizes = {"text": strings.encoded_sizes(texts), "component": strings.encoded_sizes(components)}
        sizes["edge_hash"] = np.where(edges, _EDGE_HASH_BYTES, 0)
        widths = {name: int(own.max()) for name, own in sizes.items()}
        kinds = [*_OPERATION.descr, *((name, f"V{width}") for name, width in widths.items() if width)]
        self._rows = rows = np.empty(len(records), kinds)
        for field in ("op", "root_id", "ack_val", "outstanding"):
            rows[field] = records[field]
        rows["bucket"] = layout.bucket_of(roots)
        flags = records["flags"] ^ packed.OUTSTANDING_GIVEN  # no other flag is given
        for name, numbers, flag in (("text", texts, _TEXT), ("component", components, _COMPONENT)):
            if widths[name]:
                flags = flags | np.where(numbers, flag, 0)
                rows[name] = strings.encoded(numbers, widths[name])
        if widths["edge_hash"]:
            flags = flags | np.where(edges, _EDGE_HASH, 0)
            rows["edge_hash"] = edge_hash(roots, edges).astype(">u8").view(f"V{_EDGE_HASH_BYTES}")
        rows["flags"] = flags
        self._is_used = _used_bytes([(sizes[name], width) for name, width in widths.items() if width], len(records))

    def encode(self, spout_indexes: NDArray[np.uint32], explained: Explained) -> Callable[[Indexes], bytes]:
        """Complete the rows by the spout index of each; gives the function that joins some of them."""
        complete = self._rows.copy()
        complete["spout_index"] = spout_indexes
        if not explained:
            return self._joiner(complete)
        explained.set_flags(complete["flags"])
        join, used = self._joiner(complete), self._is_used
        if not explained.names:
            return join
        sizes = np.full(len(complete), complete.itemsize) if used is None else used.sum(axis=1)

        def join_explained(order: Indexes) -> bytes:
            indexes = np.asarray(order, np.intp)
            return explained.inserted(join(indexes), indexes, sizes[indexes])

        return join_explained

    def _joiner(self, complete: NDArray[np.void]) -> Callable[[Indexes], bytes]:
        if self._is_used is None:
            whole = complete.view(f"V{complete.itemsize}")
            return lambda order: whole.take(np.asarray(order, np.intp)).tobytes()
        is_used, rows = self._is_used, complete.view(np.uint8).reshape(len(complete), -1)

        def join(order: Indexes) -> bytes:
            indexes = np.asarray(order, np.intp)
            return rows.take(indexes, axis=0)[is_used.take(indexes, axis=0)].tobytes()

        return join


def _used_bytes(optional: Sequence[tuple[NDArray[np.intp], int]], count: int) -> NDArray[np.bool] | None:
    """Mark the bytes of rows that are used, given size and width of the optional fields; None: all of them."""
    if all((sizes == width).all() for sizes, width in optional):
        return None
    fixed = np.ones((count, _OPERATION.itemsize), bool)
    return np.concatenate([fixed, *(np.arange(width) < sizes[:, np.newaxis] for sizes, width in optional)], axis=1)


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
