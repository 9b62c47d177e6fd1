"""Makes batches: columns field by field, or of operations."""

from collections.abc import Mapping, Sequence

import numpy as np
from acker_protocol.operations import Operation
from acker_protocol.wire.operations import encode_batch
from acker_service.operations import json_columns
from acker_service.operations.column_batch import RECORDS, ColumnBatch
from acker_service.redis.column_codec import EncodedStrings


def columns(*records: Mapping[str, int], strings: Sequence[str] = ()) -> ColumnBatch:
    """Operations with these fields, and zero in all others."""
    made = np.zeros(len(records), RECORDS)
    for place, record in enumerate(records):
        for field, value in record.items():
            made[place][field] = value
    return ColumnBatch(records=made, strings=EncodedStrings.of(strings))


def batch_of(operations: Sequence[Operation]) -> ColumnBatch:
    """A batch of these operations."""
    return json_columns.decode(encode_batch(operations), max_operations=len(operations))
