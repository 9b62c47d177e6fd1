"""Decodes batches: fast into columns, or by the reference codec where the fast decoder refuses one."""

from acker_protocol.errors import TooLarge
from acker_protocol.operations import Operation
from acker_protocol.wire import operations, packed

from acker_service.operations import json_columns, packed_columns
from acker_service.operations.batch import ListBatch, OperationBatch


def decode_json_batch(body: bytes, *, max_operations: int) -> list[Operation]:
    """Decode a JSON batch by the reference codec. Raises `TooLarge`, `InvalidRequest`."""
    document = operations.decode_json(body)
    ops = document.get("ops")
    if isinstance(ops, list) and len(ops) > max_operations:
        raise TooLarge(f"the batch has {len(ops)} operations; at most {max_operations} are taken")
    return operations.decode_batch(document, max_operations=max_operations)


_COLUMN_DECODERS = {operations.CONTENT_TYPE: json_columns.decode, packed.CONTENT_TYPE: packed_columns.decode}
_REFERENCE_DECODERS = {operations.CONTENT_TYPE: decode_json_batch, packed.CONTENT_TYPE: packed.decode_packed}
CONTENT_TYPES = tuple(_COLUMN_DECODERS)
"""The content types of a batch."""


def decode(content_type: str, body: bytes, *, max_operations: int) -> OperationBatch:
    """Decode a batch of one of the `CONTENT_TYPES`, of ``max_operations`` operations at most.

    A column decoder accepts a subset of what the reference codec accepts. If it refuses a body, the reference codec
    decodes it or raises the error. Raises `TooLarge`, `InvalidRequest`.
    """
    try:
        return _COLUMN_DECODERS[content_type](body, max_operations=max_operations)
    except ValueError:
        return ListBatch(_REFERENCE_DECODERS[content_type](body, max_operations=max_operations))
