"""Makes columns of operations field by field, for tests of rooms that stand below every decoder."""

from collections.abc import Mapping, Sequence

import numpy as np
from acker_protocol.operations import Ack, Fail, Init, Operation, ResetTimeout
from acker_protocol.wire import packed
from acker_service.operations.column_batch import RECORDS, ColumnBatch

_OPS = {Init: packed.INIT, Ack: packed.ACK, Fail: packed.FAIL, ResetTimeout: packed.RESET_TIMEOUT}


def columns(*records: Mapping[str, int], strings: Sequence[str] = ()) -> ColumnBatch:
    """Operations with these fields, and zero in all others."""
    made = np.zeros(len(records), RECORDS)
    for place, record in enumerate(records):
        for field, value in record.items():
            made[place][field] = value
    return ColumnBatch(records=made, strings=strings)


def columns_of(messages: Sequence[Operation]) -> ColumnBatch:
    """The kinds of these messages, their roots and their message timeouts."""
    return columns(
        *(
            {
                "op": _OPS[type(message)],
                "root_id": message.root_id,
                "message_timeout_ms": getattr(message, "message_timeout_ms", None) or 0,
            }
            for message in messages
        )
    )
