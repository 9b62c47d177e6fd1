"""Encodes the operations of a batch of columns, to the same bytes as `codec.encode_operation`."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from acker_protocol import tracing
from acker_protocol.wire import packed
from numpy.typing import NDArray

from acker_service.redis.codec import OPERATION_FIELDS, Indexes, Layout, OperationFlag, edge_hash

MAX_TEXT_BYTES = 128
"""The most bytes of a text within rows, for all rows of a batch are as wide as the longest one; others are inserted."""

_OPERATION = np.dtype([(name, f">{code}") for name, code in OPERATION_FIELDS])
_NAMES = int(OperationFlag.NAMES)  # numpy converts an enum's member three times slower
_TRACED = int(OperationFlag.TRACED)
_SAMPLE_MULTIPLIER = np.uint32(tracing.SAMPLE_MULTIPLIER)
_LENGTH_BYTES = 2
_WORD_BYTES = 4
_TRACEPARENT_BYTES = 25
_ROW_TYPES = 256
"""So many types of rows are kept; they differ in the widths of optional fields."""

_Join = Callable[[Indexes], bytes]


class EncodedStrings(Sequence[str]):
    """The strings of a batch, one after the other in UTF-8; only those that are looked at are decoded.

    ``lengths`` are their sizes in bytes and ``ends`` where they end. Operations point to them by numbers from 1; 0 is
    none, at the begin and empty.
    """

    def __init__(self, raw: bytes, lengths: NDArray[Any]) -> None:
        self.raw = raw
        self.lengths = self.ends = np.zeros(len(lengths) + 1, np.intp)
        if len(lengths):
            self.lengths[1:] = lengths
            self.ends = np.cumsum(self.lengths)

    @classmethod
    def of(cls, strings: Sequence[str]) -> "EncodedStrings":
        """Encode strings."""
        raw = "".join(strings).encode()
        texts = strings if raw.isascii() else [text.encode() for text in strings]
        return cls(raw, np.fromiter(map(len, texts), np.intp, len(texts)))

    def __len__(self) -> int:
        return len(self.lengths) - 1

    def __getitem__(self, index: Any) -> Any:
        """Decode the string of an index, which is its number less one."""
        end = int(self.ends[index + 1])
        return self.raw[end - int(self.lengths[index + 1]) : end].decode()

    def encode(self, number: int) -> bytes:
        """Encode the string of a number for Redis: its length, then its bytes."""
        end, length = int(self.ends[number]), int(self.lengths[number])
        return length.to_bytes(_LENGTH_BYTES, "big") + self.raw[end - length : end]

    def encode_column(self, numbers: NDArray[np.intp], width: int) -> NDArray[np.void]:
        """Encode the strings of these numbers for Redis, each with ``width`` bytes behind its length.

        What is shorter is followed by other bytes, what is longer is cut.
        """
        # any byte may begin a string: an array of overlapping items is copied by item, not by byte
        items = np.ndarray(len(self.raw) + 1, f"V{width}", self.raw + bytes(width), strides=(1,))
        lengths = self.lengths[numbers]
        column = np.empty(len(numbers), [("length", ">u2"), ("text", items.dtype)])
        column["length"], column["text"] = lengths, items[self.ends[numbers] - lengths]
        return column.view(f"V{column.itemsize}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What the records of a batch have, in one pass over them.

    ``bits`` are the fields of all records, combined by OR: a field that is zero there is zero in each of them.
    ``is_one_kind`` says whether all have the same op and flags, which are those of ``bits`` then.
    """

    bits: Mapping[str, int]
    is_one_kind: bool

    @classmethod
    def of(cls, records: NDArray[np.void]) -> "Overview":
        """Look at records of the packed form, which lie one behind the other."""
        words = records.view(np.uint32).reshape(-1, records.itemsize // _WORD_BYTES)
        combined = np.bitwise_or.reduce(words, axis=0)
        fields = combined.view(records.dtype).item()
        # op and flags are one word: one that all have is their combination
        is_one_kind = bool((words[:, 0] == combined[0]).all())
        return cls(bits=dict(zip(records.dtype.names or (), fields, strict=True)), is_one_kind=is_one_kind)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TraceFields:
    """What only explains roots: the encoded names of edges by row, and the rows of which the root is traced."""

    names: Mapping[int, bytes] = dataclasses.field(default_factory=dict)
    traced: Sequence[int] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.traced)

    def with_sample(self, roots: NDArray[np.uint64], threshold: int) -> "TraceFields":
        """Add the rows whose root is in the sample; ``roots`` are the root ids of all rows, one behind the other."""
        halves = roots.view(np.uint32)
        hashes = (halves[::2] ^ halves[1::2]) * _SAMPLE_MULTIPLIER  # as `tracing.sample`, in 32 bits
        # rule: a share is chosen by the id
        sampled = (hashes < threshold).nonzero()[0].tolist()
        return TraceFields(names=self.names, traced=[*self.traced, *sampled]) if sampled else self

    def set_flags(self, flags: NDArray[np.uint8]) -> None:
        """Set the flags of these rows."""
        if self.names:
            flags[list(self.names)] |= _NAMES
        if self.traced:
            flags[list(self.traced)] |= _TRACED


NO_TRACE_FIELDS = TraceFields()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _OptionalField:
    """A field that only the operations have which ``given`` marks; in a row it takes some of the bytes of its value."""

    flag: OperationFlag
    given: NDArray[np.bool]
    sizes: NDArray[np.intp]
    values: NDArray[np.void]

    @property
    def width(self) -> int:
        """The bytes of a value."""
        return self.values.itemsize


class EncodedRows:
    """Operations, each encoded as a row of bytes that is as long as the longest one.

    ``records`` have the layout of the packed form and point to ``strings``; ``overview`` is theirs; ``roots`` are
    their root ids as integers of this machine; ``traceparents`` are encoded, by row. Only the index of an init's spout
    task is missing.
    """

    def __init__(
        self,
        records: NDArray[np.void],
        overview: Overview,
        strings: EncodedStrings,
        roots: NDArray[np.uint64],
        traceparents: Mapping[int, bytes],
        layout: Layout,
    ) -> None:
        optional = list(_optional_fields(records, overview.bits, strings, roots, traceparents))
        self._rows = rows = np.empty(len(records), _row_type(*(each.width for each in optional)))
        kinds: Any = overview.bits if overview.is_one_kind else records
        op, packed_flags = kinds["op"], kinds["flags"]  # one for all, or a column
        # the form of an operation has the same bits in its flags as in the byte of its kind
        rows["op"] = op | packed_flags & packed.FORMS
        for field in ("root_id", "ack_val", "outstanding"):
            rows[field] = records[field]
        rows["bucket"] = layout.bucket_of(roots)
        # packed, the same bit says the opposite; a plain fail and a reset have no outstanding
        has_outstanding = (op <= packed.ACK) | (packed_flags & packed.ENDS_EDGE != 0)
        flags = (packed_flags ^ packed.OUTSTANDING_GIVEN) & has_outstanding
        for place, each in enumerate(optional):
            flags = flags | each.given * np.uint8(each.flag)
            rows[str(place)] = each.values
        rows["flags"] = flags
        self._sizes = [each.sizes for each in optional]
        self._is_used = _used_bytes(optional, len(records))
        has_long = strings.lengths.max() > MAX_TEXT_BYTES
        self._long_texts = dict(_long_texts(records, strings, optional)) if has_long else {}

    def encode(self, spout_indexes: NDArray[np.uint32] | int, trace_fields: TraceFields) -> _Join:
        """Complete the rows by the spout index of each, or of all, and return the function that joins some of them."""
        complete = self._rows.copy()
        complete["spout_index"] = spout_indexes
        trace_fields.set_flags(complete["flags"])
        join = self._joiner(complete)
        if not trace_fields.names and not self._long_texts:
            return join
        return self._inserting(join, trace_fields.names)

    def _joiner(self, complete: NDArray[np.void]) -> _Join:
        if self._is_used is None:
            whole = complete.view(f"V{complete.itemsize}")
            return lambda order: whole.take(np.asarray(order, np.intp)).tobytes()
        is_used, rows = self._is_used, complete.view(np.uint8).reshape(len(complete), -1)

        def join(order: Indexes) -> bytes:
            indexes = np.asarray(order, np.intp)
            return rows.take(indexes, axis=0)[is_used.take(indexes, axis=0)].tobytes()

        return join

    def _inserting(self, join: _Join, names: Mapping[int, bytes]) -> _Join:
        """Insert long texts into what is joined, and names behind the rows that have some."""
        texts, has_any = self._long_texts, np.zeros(len(self._rows), bool)
        has_any[[*texts, *names]] = True
        sizes = sum(self._sizes, np.full(len(self._rows), _OPERATION.itemsize))

        def join_all(order: Indexes) -> bytes:
            indexes = np.asarray(order, np.intp)
            raw, ends, where = join(indexes), np.cumsum(sizes[indexes]), np.flatnonzero(has_any[indexes])
            pieces, start = list[bytes](), 0
            for row, end in zip(indexes[where].tolist(), ends[where].tolist(), strict=True):
                if row in texts:
                    before_end, text = texts[row]
                    pieces += (raw[start : end - before_end], text)
                    start = end - before_end
                if row in names:
                    pieces += (raw[start:end], names[row])
                    start = end
            return b"".join((*pieces, raw[start:]))

        return join_all


@lru_cache(maxsize=_ROW_TYPES)
def _row_type(*widths: int) -> np.dtype[np.void]:
    """Return the type of a row whose optional fields have these widths."""
    return np.dtype([*_OPERATION.descr, *((str(place), f"V{width}") for place, width in enumerate(widths))])


def _optional_fields(
    records: NDArray[np.void],
    bits: Mapping[str, int],
    strings: EncodedStrings,
    roots: NDArray[np.uint64],
    traceparents: Mapping[int, bytes],
) -> Iterator[_OptionalField]:
    """Yield the optional fields that some operations have, in the order of their flags; ``bits`` are the overview's."""
    if bits["message_timeout_ms"]:
        timeouts = records["message_timeout_ms"]
        yield _fixed_size(OperationFlag.MESSAGE_TIMEOUT, timeouts != 0, timeouts.astype(">u4"))
    if bits["flags"] & packed.PROGRESS_GIVEN:
        given = records["flags"] & packed.PROGRESS_GIVEN != 0
        yield _fixed_size(OperationFlag.PROGRESS_TIMEOUT, given, records["progress_timeout_ms"].astype(">u4"))
    for flag, field in ((OperationFlag.TEXT, "text"), (OperationFlag.COMPONENT, "component")):
        if bits[field]:
            numbers = records[field].astype(np.intp)
            given, sizes = numbers != 0, strings.lengths[numbers]
            is_short = sizes <= MAX_TEXT_BYTES
            values = strings.encode_column(numbers, max(1, int((sizes * is_short).max())))
            sizes = (sizes + _LENGTH_BYTES) * (given & is_short)
            yield _OptionalField(flag=flag, given=given, sizes=sizes, values=values)
    if bits["edge_id"]:
        edges = records["edge_id"].astype(np.uint64)
        yield _fixed_size(OperationFlag.EDGE_HASH, edges != 0, edge_hash(roots, edges).astype(">u8"))
    if traceparents:
        rows, column = list(traceparents), np.zeros(len(records), f"V{_TRACEPARENT_BYTES}")
        given = np.zeros(len(records), bool)
        given[rows], column[rows] = True, list(traceparents.values())
        yield _fixed_size(OperationFlag.TRACEPARENT, given, column)


def _fixed_size(flag: OperationFlag, given: NDArray[np.bool], values: NDArray[Any]) -> _OptionalField:
    width = values.itemsize
    return _OptionalField(flag=flag, given=given, sizes=given * width, values=values.view(f"V{width}"))


def _used_bytes(optional: Sequence[_OptionalField], count: int) -> NDArray[np.bool] | None:
    """Mark the bytes of rows that are used; None: all of them."""
    if all((each.sizes == each.width).all() for each in optional):
        return None
    fixed = np.ones((count, _OPERATION.itemsize), bool)
    return np.concatenate([fixed, *(np.arange(each.width) < each.sizes[:, np.newaxis] for each in optional)], axis=1)


def _long_texts(
    records: NDArray[np.void], strings: EncodedStrings, optional: Sequence[_OptionalField]
) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """Yield the texts that are missing in rows, by row, each with the bytes of its row that follow it."""
    followed_by = np.zeros(len(records), np.intp)
    for each in reversed(optional):
        if each.flag is OperationFlag.TEXT:
            rows = np.flatnonzero(each.given & (each.sizes == 0))
            numbers, after = records["text"][rows].tolist(), followed_by[rows].tolist()
            yield from zip(rows.tolist(), zip(after, map(strings.encode, numbers), strict=True), strict=True)
            return
        followed_by = followed_by + each.sizes
