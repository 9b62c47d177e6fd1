"""Decodes a JSON batch into columns: the fields of all operations of one kind at once, column by column."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np
from acker_protocol.wire import packed
from acker_protocol.wire.fields import OUTSTANDING, TIMEOUT_MS
from numpy.typing import NDArray

from acker_service.operations.column_batch import RAW_RECORD, RECORDS, ColumnBatch, all_in_range
from acker_service.operations.explained import encode_lists
from acker_service.operations.plain_batch import PlainBatch
from acker_service.redis.column_codec import EncodedStrings, Explained

_Column = Sequence[Any]
"""One field of many operations; None where an operation leaves it out."""

_Records = NDArray[np.void]
_Where = NDArray[np.intp]

_Id = Annotated[str, msgspec.Meta(min_length=16, max_length=16)]
_Outstanding = Annotated[int, msgspec.Meta(ge=OUTSTANDING.start, lt=OUTSTANDING.stop)]
_Fields = dict[str, _Column]


class _Operation(msgspec.Struct, tag_field="op", kw_only=True, forbid_unknown_fields=True, gc=False):
    code: ClassVar[int] = 0
    root_id: _Id
    component: str | None = None


class _Init(_Operation, tag="init"):
    code: ClassVar[int] = packed.INIT
    spout_task: str
    edges: list[_Id] | None = None
    ack_val: _Id | None = None
    outstanding: int | None = None
    message_id: str | None = None
    message_timeout_ms: int | None = None
    progress_timeout_ms: int | None = None
    trace: bool | None = None


class _Ack(_Operation, tag="ack"):
    code: ClassVar[int] = packed.ACK
    edge_id: _Id | None = None
    children: list[_Id] | None = None
    ack_val: _Id | None = None
    outstanding: int | None = None


class _Fail(_Operation, tag="fail"):
    code: ClassVar[int] = packed.FAIL
    reason: str | None = None


class _ResetTimeout(_Operation, tag="reset-timeout"):
    code: ClassVar[int] = packed.RESET_TIMEOUT


class _Batch(msgspec.Struct, forbid_unknown_fields=True):
    ops: list[_Init | _Ack | _Fail | _ResetTimeout]


class _PlainInit(msgspec.Struct, tag_field="op", tag="init", forbid_unknown_fields=True, gc=False):
    edge_id: ClassVar[str | None] = None
    root_id: _Id
    ack_val: _Id
    spout_task: str
    outstanding: _Outstanding | None = None
    message_id: str | None = None
    component: str | None = None


class _PlainAck(msgspec.Struct, tag_field="op", tag="ack", forbid_unknown_fields=True, gc=False):
    spout_task: ClassVar[str | None] = None
    message_id: ClassVar[str | None] = None
    root_id: _Id
    ack_val: _Id
    outstanding: _Outstanding | None = None
    edge_id: _Id | None = None
    component: str | None = None


class _PlainBatch(msgspec.Struct, forbid_unknown_fields=True):
    ops: list[_PlainInit | _PlainAck]


class _StringTable:
    """Numbers the strings of a batch, from 1; records point to them by these numbers."""

    def __init__(self) -> None:
        self.strings: list[str] = []
        self._numbers: dict[str | None, int] = {None: 0}

    def names(self, column: _Column) -> list[int]:
        """Give the numbers of names; equal names have one number, for a batch has few."""
        for name in set(column) - self._numbers.keys():
            self.strings.append(name)
            self._numbers[name] = len(self.strings)
        return [self._numbers[name] for name in column]

    def texts(self, column: _Column) -> NDArray[np.uint32]:
        """Give the numbers of texts; each has its own, for texts differ."""
        numbers, where = np.zeros(len(column), np.uint32), _given(column)
        numbers[where] = np.arange(len(where)) + len(self.strings) + 1
        self.strings.extend(_select(column, where))
        return numbers

    def encoded(self) -> EncodedStrings:
        """Give the strings in UTF-8."""
        raw = "".join(self.strings).encode()
        texts = self.strings if raw.isascii() else [text.encode() for text in self.strings]
        return EncodedStrings(raw, np.fromiter(map(len, texts), np.intp, len(texts)))


_decoder = msgspec.json.Decoder(_Batch)
_plain_decoder = msgspec.json.Decoder(_PlainBatch)


def decode_plain(body: bytes, *, max_operations: int) -> PlainBatch:
    """Decode a batch of plain operations. Raises ``ValueError`` for any other."""
    ops = _plain_decoder.decode(body).ops
    if not 0 < len(ops) <= max_operations:
        raise ValueError("the batch is empty, or too large")
    records, strings = np.zeros(len(ops), RECORDS), _StringTable()
    records["op"] = packed.ACK
    spout_tasks = [op.spout_task for op in ops]
    if spout_tasks.count(None) < len(ops):
        records["spout_task"] = strings.names(spout_tasks)
        records["op"][records["spout_task"] != 0] = packed.INIT
        records["text"] = strings.texts([op.message_id for op in ops])
    components = [op.component for op in ops]
    if components.count(None) < len(ops):
        records["component"] = strings.names(components)
    records["root_id"] = _ids([op.root_id for op in ops])
    records["ack_val"] = _ids([op.ack_val for op in ops])
    where = _put_ids(records, "edge_id", [op.edge_id for op in ops])
    if not records["edge_id"][where].all():
        raise ValueError("an edge id is zero")
    given = _put_integers(records, "outstanding", [op.outstanding for op in ops], OUTSTANDING)
    records["flags"][given] = packed.OUTSTANDING_GIVEN
    batch = PlainBatch(records, strings.encoded())
    batch.check()
    return batch


def decode(body: bytes, *, max_operations: int) -> ColumnBatch:
    """Decode a batch of ``max_operations`` operations at most. Raises ``ValueError`` for what it does not take."""
    ops = _decoder.decode(body).ops
    if len(ops) > max_operations:
        raise ValueError("the batch is too large")
    records, strings = np.zeros(len(ops), RECORDS), _StringTable()
    codes, names, traced = np.array([op.code for op in ops], np.uint16), dict[int, bytes](), list[int]()
    for kind, fill in _FILLS.items():
        where = np.flatnonzero(codes == kind.code)
        if len(where):
            own = np.zeros(len(where), RECORDS)
            own["op"] = kind.code
            fields = _fields(kind, _select(ops, where))
            fill(own, fields, strings)
            names |= encode_lists(where, fields.get("edges" if kind is _Init else "children", ()))
            traced += [
                row for row, is_traced in zip(where.tolist(), fields.get("trace", ()), strict=False) if is_traced
            ]
            records.view(RAW_RECORD)[where] = own.view(RAW_RECORD)
    batch = ColumnBatch(records, strings.strings, Explained(names=names, traced=traced))
    batch.check()
    return batch


def _fields(kind: type[_Operation], ops: "Sequence[_Operation]") -> _Fields:
    """Give the fields of operations of one kind, each as a column."""
    names = kind.__struct_fields__
    flat = list(chain.from_iterable(map(msgspec.structs.astuple, ops)))
    return {name: flat[at :: len(names)] for at, name in enumerate(names)}


def _fill_init(records: _Records, fields: _Fields, strings: _StringTable) -> None:
    _fill(records, fields, strings)
    records["spout_task"] = strings.names(fields["spout_task"])
    records["text"] = strings.texts(fields["message_id"])
    _put_integers(records, "message_timeout_ms", fields["message_timeout_ms"], TIMEOUT_MS)
    own = _put_integers(records, "progress_timeout_ms", fields["progress_timeout_ms"], range(TIMEOUT_MS.stop))
    records["flags"][own] |= packed.PROGRESS_GIVEN
    _fill_sums(records, fields, fields["edges"])


def _fill_ack(records: _Records, fields: _Fields, strings: _StringTable) -> None:
    _fill(records, fields, strings)
    where = _put_ids(records, "edge_id", fields["edge_id"])
    children = _children(fields)
    named = _fill_sums(records, fields, children)
    edges = _select(fields["edge_id"], named)
    if any(edge in some for edge, some in zip(edges, _select(children, named), strict=True)):
        raise ValueError("an edge is its own child")
    records["ack_val"][named] ^= records["edge_id"][named]
    records["outstanding"][named] -= 1
    for field, at in (("edge_id", where), ("edge_id", named), ("ack_val", named)):
        if not records[field][at].all():
            raise ValueError("an edge id is zero or left out, or an edge and its children XOR to zero")


def _children(fields: _Fields) -> _Column:
    """Give the children of each ack, or an empty list; None for an ack that gives the XOR and names no children."""
    if None not in fields["ack_val"]:
        return fields["children"]
    rows = zip(fields["ack_val"], fields["children"], strict=True)
    return [some or [] if ack_val is None else some for ack_val, some in rows]


def _fill_fail(records: _Records, fields: _Fields, strings: _StringTable) -> None:
    _fill(records, fields, strings)
    records["text"] = strings.texts(fields["reason"])


def _fill(records: _Records, fields: _Fields, strings: _StringTable) -> None:
    _put_ids(records, "root_id", fields["root_id"])
    records["component"] = strings.names(fields["component"])


def _fill_sums(records: _Records, fields: _Fields, lists: _Column) -> _Where:
    """Write ack vals and counts, as given or from the edges in ``lists``. Return the indexes of those with edges.

    Each operation takes one of the two forms. Raises ``ValueError`` for both or none.
    """
    compact, named = _put_ids(records, "ack_val", fields["ack_val"]), _given(lists)
    counted = _put_integers(records, "outstanding", fields["outstanding"], OUTSTANDING)
    forms = np.zeros(len(records), np.uint8)
    forms[compact] = 1
    if not forms[counted].all():
        raise ValueError("outstanding goes with ack_val")
    forms[named] += 1
    if (forms != 1).any():
        raise ValueError("an operation takes either of two forms")
    _put_edges(records, named, _select(lists, named))
    records["flags"][counted] |= packed.OUTSTANDING_GIVEN
    records["flags"][named] |= packed.OUTSTANDING_GIVEN
    return named


def _given(column: _Column) -> _Where:
    """Give the indexes of what is not None."""
    missing = column.count(None)
    if not missing:
        return np.arange(len(column))
    if missing == len(column):
        return np.empty(0, np.intp)
    return np.array([index for index, value in enumerate(column) if value is not None])


def _select(column: Sequence[Any], where: _Where) -> Sequence[Any]:
    """Give the values at these indexes."""
    return column if len(where) == len(column) else [column[index] for index in where.tolist()]


def _put_ids(records: _Records, field: str, column: _Column) -> _Where:
    """Write the ids that are not None. Return their indexes. Raises ``ValueError`` for other characters."""
    where = _given(column)
    records[field][where] = _ids(_select(column, where))
    return where


def _put_integers(records: _Records, field: str, column: _Column, allowed: range) -> _Where:
    """Write the numbers that are not None. Return their indexes. Raises ``ValueError`` for one out of range."""
    where = _given(column)
    if len(where):
        numbers = np.array(_select(column, where))
        if not all_in_range(numbers, allowed):
            raise ValueError(f"{field} is out of range")
        records[field][where] = numbers
    return where


def _put_edges(records: _Records, where: _Where, lists: Sequence[list[str]]) -> None:
    """Write the XOR of named edges and their number. Raises ``ValueError`` where they repeat or XOR to zero."""
    if any(len(set(edges)) < len(edges) for edges in lists):
        raise ValueError("an edge is named twice")
    counts = np.array(list(map(len, lists)), np.int64)
    edges, has_edges = _ids(list(chain.from_iterable(lists))), counts > 0
    folds = np.zeros(len(lists), np.uint64)
    if len(edges):
        folds[has_edges] = np.bitwise_xor.reduceat(edges, (np.cumsum(counts) - counts)[has_edges])
    if not (edges.all() and folds[has_edges].all()):
        raise ValueError("an edge is zero, or edges XOR to zero")
    records["ack_val"][where], records["outstanding"][where] = folds, counts


def _ids(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Read ids of 16 characters each. Raises ``ValueError`` for other than lowercase hex digits."""
    joined = "".join(texts)
    raw = bytes.fromhex(joined)  # skips spaces and takes capitals
    if len(raw) != 8 * len(texts) or joined != joined.lower():
        raise ValueError("an id is not of lowercase hex digits")
    return np.frombuffer(raw, ">u8").astype(np.uint64)


_FILLS: dict[type[_Operation], Callable[[_Records, _Fields, _StringTable], None]] = {
    _Init: _fill_init,
    _Ack: _fill_ack,
    _Fail: _fill_fail,
    _ResetTimeout: _fill,
}
