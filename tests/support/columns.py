"""Makes batches: columns field by field, or of operations, also of such that no decoder takes."""

from collections.abc import Mapping, Sequence

import numpy as np
from acker_protocol.operations import Ack, EndOn, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire import packed
from acker_protocol.wire.operations import names_of
from acker_service.operations.column_batch import RECORDS, ColumnBatch
from acker_service.redis.codec import encode_names, encode_traceparent
from acker_service.redis.column_codec import EncodedStrings, TraceFields

_OPS = {Init: packed.INIT, Ack: packed.ACK, Fail: packed.FAIL, ResetTimeout: packed.RESET_TIMEOUT}
_NUMBERS = ("root_id", "ack_val", "outstanding", "edge_id", "message_timeout_ms", "progress_timeout_ms")
_TEXTS = {"spout_task": "spout_task", "message_id": "text", "reason": "text", "component": "component"}


def columns(*records: Mapping[str, int], strings: Sequence[str] = ()) -> ColumnBatch:
    """Operations with these fields, and zero in all others."""
    made = np.zeros(len(records), RECORDS)
    for place, record in enumerate(records):
        for field, value in record.items():
            made[place][field] = value
    return ColumnBatch(records=made, strings=EncodedStrings.of(strings))


def batch_of(operations: Sequence[Operation]) -> ColumnBatch:
    """A batch of these operations."""
    strings, records = list[str](), list[dict[str, int]]()
    for operation in operations:
        given = {name: getattr(operation, name, None) for name in (*_NUMBERS, *_TEXTS)}
        flags = sum(flag for name, flag in packed.GIVEN if given[name] is not None)
        record = {"op": _OPS[type(operation)], "flags": flags + _form_of(operation)} | {
            name: given[name] or 0 for name in _NUMBERS
        }
        for name, field in _TEXTS.items():
            if given[name] is not None:
                strings.append(given[name])
                record[field] = len(strings)
        records.append(record)
    names, traced, traceparents = dict[int, bytes](), list[int](), dict[int, bytes]()
    for row, operation in enumerate(operations):
        if encoded := encode_names(b"".join([name.to_bytes(8, "big") for name in names_of(operation) or ()])):
            names[row] = encoded
        if isinstance(operation, Init) and operation.trace:
            traced.append(row)
        if isinstance(operation, Init) and operation.traceparent:
            traceparents[row] = encode_traceparent(operation.traceparent)
    made = columns(*records, strings=strings)
    return ColumnBatch(made.records, made.strings, TraceFields(names=names, traced=traced), traceparents)


def _form_of(operation: Operation) -> int:
    match operation:
        case Init(end_on=EndOn() as end_on):
            return packed.END_ON_FLAGS[end_on]
        case Fail(ack_val=int()):
            return packed.ENDS_EDGE
        case Ack(dropped=True):
            return packed.DROPPED
        case _:
            return 0
