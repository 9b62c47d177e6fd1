"""Decodes a JSON batch into columns."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Annotated, ClassVar

import msgspec
import numpy as np
from acker_protocol.wire import packed
from acker_protocol.wire.fields import OUTSTANDING, TIMEOUT_MS

from acker_service.operations import column_checks
from acker_service.operations.column_batch import RAW_RECORD, RECORDS, ColumnBatch
from acker_service.operations.column_builder import (
    Column,
    Records,
    StringTable,
    Where,
    given,
    put_edges,
    put_ids,
    put_integers,
    select,
)

_Id = Annotated[str, msgspec.Meta(min_length=16, max_length=16)]
_Fields = dict[str, Column]


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


_decoder = msgspec.json.Decoder(_Batch)


def decode(body: bytes, *, max_operations: int) -> ColumnBatch:
    """Decode a batch of ``max_operations`` operations at most. Raises ``ValueError`` for what it does not take."""
    ops = _decoder.decode(body).ops
    if len(ops) > max_operations:
        raise ValueError("the batch is too large")
    records, strings = np.zeros(len(ops), RECORDS), StringTable()
    codes = np.array([op.code for op in ops], np.uint16)
    for kind, fill in _FILLS.items():
        where = np.flatnonzero(codes == kind.code)
        if len(where):
            own = np.zeros(len(where), RECORDS)
            own["op"] = kind.code
            fill(own, _fields(kind, select(ops, where)), strings)
            records.view(RAW_RECORD)[where] = own.view(RAW_RECORD)
    batch = ColumnBatch(records, strings.strings)
    column_checks.check(batch)
    return batch


def _fields(kind: type[_Operation], ops: "Sequence[_Operation]") -> _Fields:
    """Give the fields of operations of one kind, each as a column."""
    names = kind.__struct_fields__
    flat = list(chain.from_iterable(map(msgspec.structs.astuple, ops)))
    return {name: flat[at :: len(names)] for at, name in enumerate(names)}


def _fill_init(records: Records, fields: _Fields, strings: StringTable) -> None:
    _fill(records, fields, strings)
    records["spout_task"] = strings.names(fields["spout_task"])
    records["text"] = strings.texts(fields["message_id"])
    put_integers(records, "message_timeout_ms", fields["message_timeout_ms"], TIMEOUT_MS)
    own = put_integers(records, "progress_timeout_ms", fields["progress_timeout_ms"], range(TIMEOUT_MS.stop))
    records["flags"][own] |= packed.PROGRESS_GIVEN
    _fill_sums(records, fields, fields["edges"])


def _fill_ack(records: Records, fields: _Fields, strings: StringTable) -> None:
    _fill(records, fields, strings)
    where = put_ids(records, "edge_id", fields["edge_id"])
    children = _children(fields)
    named = _fill_sums(records, fields, children)
    edges = select(fields["edge_id"], named)
    if any(edge in some for edge, some in zip(edges, select(children, named), strict=True)):
        raise ValueError("an edge is its own child")
    records["ack_val"][named] ^= records["edge_id"][named]
    records["outstanding"][named] -= 1
    for field, at in (("edge_id", where), ("edge_id", named), ("ack_val", named)):
        if not records[field][at].all():
            raise ValueError("an edge id is zero or left out, or an edge and its children XOR to zero")


def _children(fields: _Fields) -> Column:
    """Give the children of each ack, or an empty list; None for an ack that gives the XOR and names no children."""
    if None not in fields["ack_val"]:
        return fields["children"]
    rows = zip(fields["ack_val"], fields["children"], strict=True)
    return [some or [] if ack_val is None else some for ack_val, some in rows]


def _fill_fail(records: Records, fields: _Fields, strings: StringTable) -> None:
    _fill(records, fields, strings)
    records["text"] = strings.texts(fields["reason"])


def _fill(records: Records, fields: _Fields, strings: StringTable) -> None:
    put_ids(records, "root_id", fields["root_id"])
    records["component"] = strings.names(fields["component"])


def _fill_sums(records: Records, fields: _Fields, lists: Column) -> Where:
    """Put ack vals and counts, as given or from the edges in ``lists``, and give where it has edges.

    Each operation takes one of the two forms. Raises ``ValueError`` for both or none.
    """
    compact, named = put_ids(records, "ack_val", fields["ack_val"]), given(lists)
    counted = put_integers(records, "outstanding", fields["outstanding"], OUTSTANDING)
    forms = np.zeros(len(records), np.uint8)
    forms[compact] = 1
    if not forms[counted].all():
        raise ValueError("outstanding goes with ack_val")
    forms[named] += 1
    if (forms != 1).any():
        raise ValueError("an operation takes either of two forms")
    put_edges(records, named, select(lists, named))
    records["flags"][counted] |= packed.OUTSTANDING_GIVEN
    records["flags"][named] |= packed.OUTSTANDING_GIVEN
    return named


_FILLS: dict[type[_Operation], Callable[[Records, _Fields, StringTable], None]] = {
    _Init: _fill_init,
    _Ack: _fill_ack,
    _Fail: _fill_fail,
    _ResetTimeout: _fill,
}
