"""Decodes a JSON batch into columns: the fields of all operations of one kind at once, column by column."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Annotated, Any

import msgspec
import numpy as np
from acker_protocol.operations import EndOn
from acker_protocol.wire import packed
from acker_protocol.wire.fields import OUTSTANDING, TIMEOUT_MS, traceparent
from numpy.typing import NDArray

from acker_service.operations.column_batch import RAW_RECORD, RECORDS, ColumnBatch, all_in_range
from acker_service.operations.trace_fields import encode_lists
from acker_service.redis.codec import encode_traceparent
from acker_service.redis.column_codec import EncodedStrings, TraceFields

_Column = Sequence[Any]
"""One field of many operations; None where an operation leaves it out."""

_Records = NDArray[np.void]
_Where = NDArray[np.intp] | slice
"""The indexes of some operations; a slice stands for all of them."""

_Id = Annotated[str, msgspec.Meta(min_length=16, max_length=16)]


class _Operation(msgspec.Struct, tag_field="op", kw_only=True, forbid_unknown_fields=True, gc=False):
    root_id: _Id
    component: str | None = None


class _Init(_Operation, tag="init"):
    spout_task: str
    edges: list[_Id] | None = None
    ack_val: _Id | None = None
    outstanding: int | None = None
    message_id: str | None = None
    message_timeout_ms: int | None = None
    progress_timeout_ms: int | None = None
    trace: bool | None = None
    traceparent: str | None = None
    end_on: EndOn | None = None


class _EndedEdge(_Operation):
    edge_id: _Id | None = None
    children: list[_Id] | None = None
    ack_val: _Id | None = None
    outstanding: int | None = None


class _Ack(_EndedEdge, tag="ack"):
    dropped: bool | None = None


class _Fail(_EndedEdge, tag="fail"):
    reason: str | None = None


class _ResetTimeout(_Operation, tag="reset-timeout"):
    pass


class _Batch(msgspec.Struct, forbid_unknown_fields=True):
    ops: list[_Init | _Ack | _Fail | _ResetTimeout]


_decoder = msgspec.json.Decoder(_Batch)


class _Columns:
    """The columns of a batch, which are written kind by kind."""

    def __init__(self, count: int) -> None:
        self.records = np.zeros(count, RECORDS)
        self.strings: list[str] = []
        self.names: dict[int, bytes] = {}
        self.traced: list[int] = []
        self.traceparents: dict[int, bytes] = {}
        self._numbers: dict[str | None, int] = {None: 0}

    def number_names(self, column: _Column) -> NDArray[np.uint32] | int:
        """Return the numbers of names, or the one that all have; equal names have one number, for a batch has few."""
        distinct = set(column)
        for name in distinct - self._numbers.keys():
            self.strings.append(name)
            self._numbers[name] = len(self.strings)
        if len(distinct) == 1:
            return self._numbers[column[0]]
        return np.fromiter(map(self._numbers.__getitem__, column), np.uint32, len(column))

    def put_texts(self, records: _Records, column: _Column) -> None:
        """Write the numbers of texts; each has its own, for texts differ."""
        if (where := _given(column)) is not None:
            texts = _select(column, where)
            records["text"][where] = np.arange(len(self.strings) + 1, len(self.strings) + len(texts) + 1)
            self.strings.extend(texts)

    def batch(self) -> ColumnBatch:
        """Return the batch. Raises ``ValueError`` for values beyond the limits of the contract."""
        trace_fields = TraceFields(names=self.names, traced=self.traced)
        batch = ColumnBatch(self.records, EncodedStrings.of(self.strings), trace_fields, self.traceparents)
        batch.check()
        return batch


def decode(body: bytes, *, max_operations: int) -> ColumnBatch:
    """Decode a batch of ``max_operations`` operations at most. Raises ``ValueError`` for what it does not take."""
    ops = _decoder.decode(body).ops
    if len(ops) > max_operations:
        raise ValueError("the batch is too large")
    columns, kinds = _Columns(len(ops)), list(map(type, ops))
    if kinds and kinds.count(kinds[0]) == len(ops):
        _write(columns, columns.records, range(len(ops)), ops)
        return columns.batch()
    for kind in set(kinds):
        rows = [row for row, own in enumerate(kinds) if own is kind]
        records = np.zeros(len(rows), RECORDS)
        _write(columns, records, rows, [ops[row] for row in rows])
        columns.records.view(RAW_RECORD)[rows] = records.view(RAW_RECORD)
    return columns.batch()


def _write(columns: _Columns, records: _Records, rows: Sequence[int], ops: Sequence[Any]) -> None:
    """Write operations of one kind, which are at these rows of the batch, into records."""
    records["op"], fill = _KINDS[type(ops[0])]
    records["root_id"] = _ids([op.root_id for op in ops])
    records["component"] = columns.number_names([op.component for op in ops])
    fill(columns, records, rows, ops)


def _fill_inits(columns: _Columns, records: _Records, rows: Sequence[int], inits: Sequence[_Init]) -> None:
    records["spout_task"] = columns.number_names([init.spout_task for init in inits])
    columns.put_texts(records, [init.message_id for init in inits])
    edges = [init.edges for init in inits]
    _put_sums(records, [init.ack_val for init in inits], [init.outstanding for init in inits], edges)
    columns.names |= encode_lists(_with_rows(rows, edges))
    if _have_rare_fields(inits):
        _fill_rare_fields(columns, records, rows, inits)


def _have_rare_fields(inits: Sequence[_Init]) -> bool:
    """Return whether any init has a timeout, a trace or an end of its own: most have none, and one pass says so."""
    rare = [
        True
        for init in inits
        if init.message_timeout_ms is not None
        or init.progress_timeout_ms is not None
        or init.trace is not None
        or init.traceparent is not None
        or init.end_on is not None
    ]
    return bool(rare)


def _fill_rare_fields(columns: _Columns, records: _Records, rows: Sequence[int], inits: Sequence[_Init]) -> None:
    _put_integers(records, "message_timeout_ms", [init.message_timeout_ms for init in inits], TIMEOUT_MS)
    progress_ms = [init.progress_timeout_ms for init in inits]
    if (own := _put_integers(records, "progress_timeout_ms", progress_ms, range(TIMEOUT_MS.stop))) is not None:
        records["flags"][own] |= packed.PROGRESS_GIVEN
    columns.traced += [row for row, is_traced in _with_rows(rows, [init.trace for init in inits]) if is_traced]
    for row, own_traceparent in _with_rows(rows, [init.traceparent for init in inits]):
        columns.traceparents[row] = encode_traceparent(traceparent(own_traceparent))
    forms = [packed.END_ON_FLAGS[init.end_on] if init.end_on else 0 for init in inits]
    records["flags"] |= np.array(forms, np.uint16)


def _fill_acks(columns: _Columns, records: _Records, rows: Sequence[int], acks: Sequence[_Ack]) -> None:
    _fill_ended_edges(columns, records, rows, acks)
    if dropped := [place for place, ack in enumerate(acks) if ack.dropped]:
        records["flags"][dropped] |= np.uint16(packed.DROPPED)


def _fill_ended_edges(columns: _Columns, records: _Records, rows: Sequence[int], ended: Sequence[_EndedEdge]) -> None:
    edges, children = [op.edge_id for op in ended], [op.children for op in ended]
    ack_vals = [op.ack_val for op in ended]
    where = _put_ids(records, "edge_id", edges)
    if where is not None and not records["edge_id"][where].all():
        raise ValueError("an edge id is zero")
    if None in ack_vals:  # such an operation names its edge, and perhaps children
        named = zip(ack_vals, children, strict=True)
        children = [some or [] if ack_val is None else some for ack_val, some in named]
    where = _put_sums(records, ack_vals, [op.outstanding for op in ended], children)
    if where is None:
        return
    if any(edge in some for edge, some in zip(_select(edges, where), _select(children, where), strict=True)):
        raise ValueError("an edge is its own child")
    records["ack_val"][where] ^= records["edge_id"][where]
    records["outstanding"][where] -= 1
    if not (records["edge_id"][where].all() and records["ack_val"][where].all()):
        raise ValueError("an edge id is left out, or an edge and its children XOR to zero")
    columns.names |= encode_lists(_with_rows(rows, children))


def _fill_fails(columns: _Columns, records: _Records, rows: Sequence[int], fails: Sequence[_Fail]) -> None:
    columns.put_texts(records, [fail.reason for fail in fails])
    ended = [place for place, fail in enumerate(fails) if _ends_edge(fail)]
    if ended:
        edges = np.zeros(len(ended), RECORDS)
        _fill_ended_edges(columns, edges, [rows[place] for place in ended], [fails[place] for place in ended])
        for field in ("ack_val", "outstanding", "edge_id"):
            records[field][ended] = edges[field]
        records["flags"][ended] = edges["flags"] | np.uint16(packed.ENDS_EDGE)


def _ends_edge(fail: _Fail) -> bool:
    given = (fail.edge_id, fail.children, fail.ack_val, fail.outstanding)
    return any(value is not None for value in given)


def _fill_nothing(*_: object) -> None:
    """Write nothing: a reset has no field of its own."""


def _put_sums(records: _Records, ack_vals: _Column, outstanding: _Column, lists: _Column) -> _Where | None:
    """Write ack vals and counts, as given or from the edges in ``lists``. Return where edges are named.

    Each operation takes one of the two forms. Raises ``ValueError`` for both or none.
    """
    compact, named = _put_ids(records, "ack_val", ack_vals), _given(lists)
    counted = _put_integers(records, "outstanding", outstanding, OUTSTANDING)
    if counted is not None:
        records["flags"][counted] = packed.OUTSTANDING_GIVEN
    if named is None and isinstance(compact, slice):
        return None
    forms = np.zeros(len(records), np.uint8)
    if compact is not None:
        forms[compact] = 1
    if counted is not None and not forms[counted].all():
        raise ValueError("outstanding goes with ack_val")
    if named is not None:
        forms[named] += 1
    if named is None or (forms != 1).any():
        raise ValueError("an operation takes either of two forms")
    _put_edges(records, named, _select(lists, named))
    records["flags"][named] = packed.OUTSTANDING_GIVEN
    return named


def _put_edges(records: _Records, where: _Where, lists: Sequence[list[str]]) -> None:
    """Write the XOR of named edges and their number. Raises ``ValueError`` where they repeat or XOR to zero."""
    if any(len(set(edges)) < len(edges) for edges in lists):
        raise ValueError("an edge is named twice")
    counts = np.array(list(map(len, lists)), np.int64)
    edges, has_edges = _ids(list(chain.from_iterable(lists))).astype(np.uint64), counts > 0
    folds = np.zeros(len(lists), np.uint64)
    if len(edges):
        folds[has_edges] = np.bitwise_xor.reduceat(edges, (np.cumsum(counts) - counts)[has_edges])
    if not (edges.all() and folds[has_edges].all()):
        raise ValueError("an edge is zero, or edges XOR to zero")
    records["ack_val"][where], records["outstanding"][where] = folds, counts


def _put_ids(records: _Records, field: str, column: _Column) -> _Where | None:
    """Write the ids that are not None. Return where they are. Raises ``ValueError`` for other characters."""
    if (where := _given(column)) is not None:
        records[field][where] = _ids(_select(column, where))
    return where


def _put_integers(records: _Records, field: str, column: _Column, allowed: range) -> _Where | None:
    """Write the numbers that are not None. Return where they are. Raises ``ValueError`` for one out of range."""
    if (where := _given(column)) is not None:
        given = _select(column, where)
        try:
            numbers = np.fromiter(given, np.int64, len(given))
        except OverflowError:
            raise ValueError(f"{field} has more than 64 bits") from None
        if not all_in_range(numbers, allowed):
            raise ValueError(f"{field} is out of range")
        records[field][where] = numbers
    return where


def _ids(texts: Sequence[str]) -> NDArray[np.uint64]:
    """Read ids of 16 characters each. Raises ``ValueError`` for other than lowercase hex digits."""
    joined = "".join(texts)
    raw = bytes.fromhex(joined)  # skips spaces and takes capitals
    if len(raw) != 8 * len(texts) or joined != joined.lower():
        raise ValueError("an id is not of lowercase hex digits")
    return np.frombuffer(raw, ">u8")


def _given(column: _Column) -> _Where | None:
    """Return where something is not None; None: nowhere."""
    missing = column.count(None)
    if not missing:
        return slice(None)
    if missing == len(column):
        return None
    return np.array([index for index, value in enumerate(column) if value is not None])


def _select(column: _Column, where: _Where) -> _Column:
    """Return the values there."""
    return column if isinstance(where, slice) else [column[index] for index in where.tolist()]


def _with_rows(rows: Sequence[int], column: _Column) -> Iterable[tuple[int, Any]]:
    """Return the values that are not None, each with its row."""
    if column.count(None) == len(column):
        return ()
    return ((row, value) for row, value in zip(rows, column, strict=True) if value is not None)


_Fill = Callable[[_Columns, _Records, Sequence[int], Sequence[Any]], None]
_KINDS: dict[type[_Operation], tuple[int, _Fill]] = {
    _Init: (packed.INIT, _fill_inits),
    _Ack: (packed.ACK, _fill_acks),
    _Fail: (packed.FAIL, _fill_fails),
    _ResetTimeout: (packed.RESET_TIMEOUT, _fill_nothing),
}
