"""Decodes the batches: fast into columns, and by the reference codec where that finds something it does not take."""

from acker_protocol.errors import TooLarge
from acker_protocol.operations import Operation
from acker_protocol.wire.operations import decode_batch, decode_json
from acker_protocol.wire.packed import CONTENT_TYPE, decode_packed

from acker_service.http.bodies import JSON
from acker_service.operations import json_columns, packed_columns
from acker_service.operations.column_batch import Operations


def decode_json_batch(body: bytes, *, max_operations: int) -> list[Operation]:
    """Decode a JSON batch by the reference codec. Raises `TooLarge`, `Invalid`."""
    document = decode_json(body)
    ops = document.get("ops")
    if isinstance(ops, list) and len(ops) > max_operations:
        raise TooLarge(f"the batch has {len(ops)} operations; at most {max_operations} are taken")
    return decode_batch(document, max_operations=max_operations)


_COLUMN_DECODERS = {JSON: json_columns.decode, CONTENT_TYPE: packed_columns.decode}
_REFERENCE_DECODERS = {JSON: decode_json_batch, CONTENT_TYPE: decode_packed}
CONTENT_TYPES = tuple(_COLUMN_DECODERS)
"""The content types of a batch."""


def decode(kind: str, body: bytes, *, max_operations: int) -> Operations:
    """Decode a batch of a content type, of ``max_operations`` operations at most.

    The fast decoders take less than the reference, never more: what one of them refuses the reference decides, and its
    words say what is wrong. Raises `TooLarge`, `Invalid`.
    """
    try:
        return _COLUMN_DECODERS[kind](body, max_operations=max_operations)
    except ValueError:
        return _REFERENCE_DECODERS[kind](body, max_operations=max_operations)
